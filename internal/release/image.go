// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user that the daemon runs as in a container.
const nobody = "65532:65532"

// authorities is where Go looks for those that sign certificates, such as that of a Redis.
const authorities = "etc/ssl/certs/ca-certificates.crt"

// publicAuthorities are those that Mozilla trusts, but for those that it trusts in part.
func publicAuthorities() (text []byte) {
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return text
}

// image writes headgate-VERSION.oci.tar: an image for each linux platform, with nothing
// in it but the daemon and the public authorities of certificates.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		image, err := r.imageOf(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	// An archive of several platforms is an index of an index.
	named := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add:        index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version}},
	})
	dir, err := os.MkdirTemp("", "headgate-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, named); err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		entries = append(entries, entry{name: filepath.ToSlash(name), from: path, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("headgate-%s.oci.tar", r.version)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeTar(f, r.at, entries); err != nil {
		return err
	}
	return f.Close()
}

// imageOf is the image for p.
func (r *release) imageOf(p platform) (v1.Image, error) {
	var content bytes.Buffer
	err := writeTar(&content, r.at, []entry{
		{name: authorities, text: publicAuthorities(), mode: 0o644},
		{name: "headgate", from: r.program(p, "headgate"), mode: 0o755},
	})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "headgate's release", Author: "headgate"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.configOf(p, image))
}

// configOf is image's configuration: the daemon runs as nobody.
func (r *release) configOf(p platform, image v1.Image) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil { // of an image in memory there is none
		panic(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.at}
	config.Config = v1.Config{
		User:       nobody,
		Entrypoint: []string{"/headgate"},
		Cmd:        []string{"serve", "--limits", "/etc/headgate/limits.yaml"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "headgate",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return config
}

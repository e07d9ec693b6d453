// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// entry is one file of an archive, with text or with what is in the file from.
type entry struct {
	name, from string
	text       []byte
	mode       int64
}

// writeTar writes entries as a tar that does not depend on when and where it was made.
func writeTar(w io.Writer, at time.Time, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		text := e.text
		if e.from != "" {
			var err error
			if text, err = os.ReadFile(e.from); err != nil {
				return err
			}
		}
		if err := t.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(text)), ModTime: at, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	return t.Close()
}

// archive writes headgate-VERSION-OS-ARCH.tar.gz.
func (r *release) archive(p platform) error {
	name := fmt.Sprintf("headgate-%s-%s", r.version, p)
	f, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	var entries []entry
	for _, program := range programs {
		entries = append(entries, entry{name: name + "/" + program, from: r.program(p, program), mode: 0o755})
	}
	for _, text := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		entries = append(entries, entry{name: name + "/" + text, from: filepath.Join(r.root, text), mode: 0o644})
	}
	pages, err := filepath.Glob(filepath.Join(r.man, "*.gz"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		entries = append(entries, entry{name: name + "/man/man1/" + filepath.Base(page), from: page, mode: 0o644})
	}
	if err := writeTar(z, r.at, entries); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// list writes a list in CycloneDX's form of what the programs are built from, as the go
// command has recorded it in them.
func (r *release) list(p platform) error {
	modules := make(map[string]*debug.Module)
	var info *debug.BuildInfo // that of one stands for all but the modules
	for _, program := range programs {
		var err error
		if info, err = buildinfo.ReadFile(r.program(p, program)); err != nil {
			return err
		}
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			modules[module.Path] = module
		}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.at.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "headgate", Type: cyclonedx.ComponentTypeApplication, Name: "headgate", Version: r.version,
			PackageURL: "pkg:golang/" + info.Main.Path + "@" + r.version,
			Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	components := []cyclonedx.Component{{
		BOMRef: "go", Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion[len("go"):],
	}}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		version := modules[path].Version
		components = append(components, cyclonedx.Component{
			BOMRef: path, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
			PackageURL: "pkg:golang/" + path + "@" + version,
		})
	}
	bom.Components = &components
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("headgate-%s-%s.cdx.json", r.version, p)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}

// pack writes a Debian package of the daemon, for linux.
func (r *release) pack(p platform) error {
	if p.os != "linux" {
		return nil
	}
	deployed := filepath.Join(r.root, "examples", "deploy", "systemd")
	scripts := filepath.Join(r.root, "internal", "release", "debian")
	info := &nfpm.Info{
		Name: "headgate", Arch: p.arch, Platform: p.os, Version: r.version, VersionSchema: "semver",
		Section: "net", Priority: "optional", License: "Apache-2.0",
		Maintainer:  "The headgate authors <headgate@localhost>",
		Description: "Distributed rate limiter\nHosts decide in memory, and share each limit by where the load is.",
		MTime:       r.at,
		Overridables: nfpm.Overridables{
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinst"), PreRemove: filepath.Join(scripts, "prerm"), PostRemove: filepath.Join(scripts, "postrm"),
			},
			Contents: files.Contents{
				{Source: r.program(p, "headgate"), Destination: "/usr/bin/headgate", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.at}},
				{Source: filepath.Join(deployed, "headgate.service"), Destination: "/lib/systemd/system/headgate.service", FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}},
				{Source: filepath.Join(deployed, "headgate.yaml"), Destination: "/etc/headgate/headgate.yaml", Type: files.TypeConfigNoReplace, FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}},
				{Source: filepath.Join(deployed, "limits.yaml"), Destination: "/etc/headgate/limits.yaml", Type: files.TypeConfigNoReplace, FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}},
				{Source: filepath.Join(r.root, "LICENSE"), Destination: "/usr/share/doc/headgate/copyright", FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}},
			},
		},
	}
	pages, err := filepath.Glob(filepath.Join(r.man, "*.gz"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		info.Contents = append(info.Contents, &files.Content{
			Source: page, Destination: "/usr/share/man/man1/" + filepath.Base(page), FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at},
		})
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("headgate-%s-%s.deb", r.version, p)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := deb.Default.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

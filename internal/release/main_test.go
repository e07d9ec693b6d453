// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// clone is the module as it was committed last, in a folder of its own.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "headgate")
	if text, err := exec.Command("git", "clone", "--quiet", "--no-hardlinks", "../..", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return dir
}

func TestARelease(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs twice")
	}
	all := platforms
	platforms = []platform{{"linux", "amd64"}} // one is enough to see
	defer func() { platforms = all }()
	first, second := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "other")
	for _, out := range []string{first, second} {
		root := clone(t)
		if err := os.WriteFile(filepath.Join(root, "LICENSE"), []byte(out), 0o644); err != nil { // left out
			t.Fatal(err)
		}
		if err := build(root, out); err != nil {
			t.Fatal(err)
		}
	}
	sums := read(t, filepath.Join(first, "SHA256SUMS"))
	if again := read(t, filepath.Join(second, "SHA256SUMS")); again != sums {
		t.Errorf("two builds in two folders differ:\n%s%s", sums, again)
	}
	kinds := regexp.MustCompile(`-v[^ ]*?(linux-amd64)?\.(tar\.gz|deb|cdx\.json|oci\.tar)\n`).FindAllString(sums, -1)
	if len(kinds) != 4 {
		t.Errorf("there are %q", sums)
	}
	cmd := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	cmd.Dir = first
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}

	// The archive.
	names := entriesOf(t, gunzip(t, read(t, one(t, first, "*.tar.gz"))))
	for _, want := range []string{"headgate", "headgate-lab", "LICENSE", "README.md", "CHANGELOG.md", "headgate.1.gz"} {
		if !slices.ContainsFunc(names, func(name string) bool { return filepath.Base(name) == want }) {
			t.Errorf("the archive has no %s: %q", want, names)
		}
	}
	program := filepath.Join(first, "linux-amd64", "headgate")
	if text, err := exec.Command(program, "version").CombinedOutput(); err != nil || !strings.Contains(string(text), "headgate v") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := exec.Command("go", "version", "-m", program).CombinedOutput(); err != nil || !strings.Contains(string(text), "CGO_ENABLED=0") {
		t.Errorf("%v\n%s", err, text)
	}
	if strings.Contains(read(t, program), filepath.Dir(first)) {
		t.Error("the program has a path of this machine")
	}

	// The list of what is in it.
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(read(t, one(t, first, "*.cdx.json"))), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Components == nil || len(*bom.Components) < 20 {
		t.Errorf("the list has %v", bom.Components)
	}
	for _, name := range []string{"google.golang.org/grpc", "gonum.org/v1/plot"} { // of the daemon, and of the lab
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == name && c.Version != "" }) {
			t.Errorf("the list has no %s", name)
		}
	}

	// The package.
	if _, err := exec.LookPath("dpkg-deb"); err == nil {
		text, err := exec.Command("dpkg-deb", "--contents", one(t, first, "*.deb")).CombinedOutput()
		for _, want := range []string{"./usr/bin/headgate", "./lib/systemd/system/headgate.service", "./etc/headgate/headgate.yaml", "./etc/headgate/limits.yaml", "./usr/share/man/man1/headgate-limits-apply.1.gz"} {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("the package has no %s: %v\n%s", want, err, text)
			}
		}
		for _, name := range []string{"postinst", "prerm", "postrm"} {
			script, err := exec.Command("dpkg-deb", "--info", one(t, first, "*.deb"), name).Output()
			if err != nil || !strings.Contains(string(script), "systemctl") {
				t.Errorf("%s: %v\n%s", name, err, script)
			}
			if said, err := exec.Command("sh", "-n", filepath.Join("debian", name)).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, said)
			}
		}
	}

	// The image.
	dir := t.TempDir()
	untar(t, read(t, one(t, first, "*.oci.tar")), dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = inner.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	image, err := inner.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != nobody || config.OS != "linux" {
		t.Errorf("%+v, %v", config, err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(content)
	if got := entriesOf(t, string(text)); err != nil || !slices.Equal(got, []string{authorities, "headgate"}) {
		t.Errorf("the image has %q, %v", got, err)
	}
	inside := t.TempDir()
	untar(t, string(text), inside)
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(read(t, filepath.Join(inside, authorities)))) {
		t.Error("the image has no authorities")
	}
	if os.Getuid() == 0 { // who may change the root
		limits := read(t, "../../examples/deploy/systemd/limits.yaml")
		if err := os.WriteFile(filepath.Join(inside, "limits.yaml"), []byte(limits), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/headgate", "serve", "--check", "--limits", "/limits.yaml")
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: inside, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("the daemon does not run in the image: %v\n%s", err, said)
		}
	}
}

// TestTheUnitIsOneThatSystemdTakes needs systemd-analyze, where it is there.
func TestTheUnitIsOneThatSystemdTakes(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze")
	}
	unit := filepath.Join(t.TempDir(), "headgate.service")
	text := read(t, "../../examples/deploy/systemd/headgate.service")
	if !strings.Contains(text, "\nStartLimitIntervalSec=0\n") {
		t.Error("systemd gives up on a daemon that cannot start five times in 10 s")
	}
	text = strings.ReplaceAll(text, "/usr/bin/headgate", "/bin/true")
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(said), "headgate.service:") {
		t.Errorf("%v\n%s", err, said)
	}
	said, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// one is the only file of dir that matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

func gunzip(t *testing.T, text string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// entriesOf are the names in a tar.
func entriesOf(t *testing.T, text string) (names []string) {
	t.Helper()
	r := tar.NewReader(strings.NewReader(text))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

func untar(t *testing.T, text, dir string) {
	t.Helper()
	r := tar.NewReader(strings.NewReader(text))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var content bytes.Buffer
		if _, err := io.Copy(&content, r); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content.Bytes(), h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

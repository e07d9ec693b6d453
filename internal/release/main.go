// SPDX-License-Identifier: Apache-2.0

// Command release builds what users install: programs for each platform, archives of
// them, Debian packages, a container image, lists of what is in them, and checksums. It
// is a module of its own, because nothing else needs what it links.
//
//	go run . -root ../.. -out ../../dist
//
// What is committed is built, and the same commit gives the same bytes: in any folder, on
// any machine with the same Go.
// Building needs no network beyond Go's modules.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platform is what programs are built for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

var (
	platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
	programs  = []string{"headgate", "headgate-lab"}
)

// release is one version under way.
type release struct {
	root, out string
	version   string
	man       string    // a folder with the manual pages
	at        time.Time // of the commit: the time of all files
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "folder of the module")
	out := flag.String("out", "dist", "folder for what is built; what is there is replaced")
	only := flag.String("only", "", "build for this platform alone, such as linux-amd64")
	flag.Parse()
	if *only != "" {
		platforms = slices.DeleteFunc(platforms, func(p platform) bool { return p.String() != *only })
	}
	if len(platforms) == 0 {
		log.Fatalf("release: there is no platform %q: use linux-amd64, linux-arm64, darwin-amd64 or darwin-arm64", *only)
	}
	if err := build(*root, *out); err != nil {
		log.Fatal("release: ", err)
	}
}

// build builds all into out.
func build(root, out string) error {
	r := &release{root: root, out: out}
	if err := r.describe(); err != nil {
		return err
	}
	committed, err := r.committed()
	if err != nil {
		return err
	}
	defer os.RemoveAll(committed)
	r.root = committed
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := r.manual(); err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	defer os.RemoveAll(r.man)
	for _, p := range platforms {
		log.Printf("%s %s", r.version, p)
		for _, step := range []func(platform) error{r.compile, r.archive, r.list, r.pack} {
			if err := step(p); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	if err := r.image(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return r.sums()
}

// git is what git says about r's repository.
func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.root}, args...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(text)), nil
}

// committed is a folder with what is committed, to build from: files that change
// meanwhile, or are not committed, do not matter. The caller removes it.
func (r *release) committed() (dir string, err error) {
	changed, err := r.git("status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changed != "" {
		log.Printf("what is not committed is left out:\n%s", changed)
	}
	if dir, err = os.MkdirTemp("", "headgate-release"); err != nil {
		return "", err
	}
	_, err = r.git("clone", "--quiet", "--no-hardlinks", ".", dir)
	return dir, err
}

// describe finds out what is built: the version by git, and when it was made.
func (r *release) describe() error {
	version, err := r.git("describe", "--tags", "--always")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(version, "v") { // there is no tag yet
		version = "v0.0.0-" + version
	}
	seconds, err := r.git("log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	r.version, r.at = version, time.Unix(at, 0).UTC()
	return err
}

// program is where one program of p is.
func (r *release) program(p platform, name string) string {
	return filepath.Join(r.out, p.String(), name)
}

// compile builds the programs of p: static, without paths of this machine.
func (r *release) compile(p platform) error {
	for _, name := range programs {
		at, err := filepath.Abs(r.program(p, name))
		if err != nil {
			return err
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w -buildid=", "-o", at, "./cmd/"+name)
		cmd.Dir, cmd.Stderr = r.root, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOFLAGS=")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// manual writes the manual pages, compressed, with the date of the commit.
func (r *release) manual() (err error) {
	if r.man, err = os.MkdirTemp("", "headgate-man"); err != nil {
		return err
	}
	program := filepath.Join(r.man, "headgate") // for this machine
	for _, args := range [][]string{{"go", "build", "-buildvcs=true", "-o", program, "./cmd/headgate"}, {program, "man", "--to", r.man}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stderr = r.root, os.Stderr
		cmd.Env = append(os.Environ(), "GOFLAGS=", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.at.Unix(), 10))
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	pages, err := filepath.Glob(filepath.Join(r.man, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := compress(page); err != nil {
			return err
		}
	}
	return nil
}

// compress has path.gz take the place of path.
func compress(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(path+".gz", packed.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Remove(path)
}

// sums writes SHA256SUMS, which sha256sum --check reads.
func (r *release) sums() error {
	var lines []string
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		sum, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+f.Name()+"\n")
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

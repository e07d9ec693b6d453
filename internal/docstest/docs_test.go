// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/headgate/headgate"

// repository returns its root and what is in its documents.
func repository(t *testing.T) (root string, all []page) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err = pages(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no documents found")
	}
	return root, all
}

func TestLinksLeadSomewhere(t *testing.T) {
	root, all := repository(t)
	for _, p := range all {
		for _, l := range p.links {
			if err := follow(os.DirFS(root), all, p, l.target); err != nil {
				t.Errorf("%s:%d: link to %s: %v", p.path, l.line, l.target, err)
			}
		}
	}
}

func TestCommandsAreRunSomewhere(t *testing.T) {
	root, all := repository(t)
	build := sync.OnceValues(func() (string, error) {
		bin := filepath.Join(t.TempDir(), "headgate")
		out, err := goCommand(t, root, "build", "-o", bin, "./cmd/headgate")
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		return bin, err
	})
	c := checker{tree: os.DirFS(root), help: func(args ...string) (string, error) {
		bin, err := build()
		if err != nil {
			return "", err
		}
		out, err := exec.CommandContext(t.Context(), bin, append(args, "--help")...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("headgate %s --help: %w\n%s", strings.Join(args, " "), err, out)
		}
		// Cobra shows a parent's help for a subcommand that is not there.
		if n := len(args); n > 0 && !strings.Contains(string(out), "headgate "+strings.Join(args, " ")) {
			return "", fmt.Errorf("headgate has no subcommand %s", strings.Join(args, " "))
		}
		return string(out), nil
	}}
	for _, p := range all {
		for _, f := range p.fences {
			for _, cmd := range f.commands() {
				if err := c.command(cmd); err != nil {
					t.Errorf("%s:%d: %s: %v", p.path, f.line, cmd, err)
				}
			}
		}
	}
}

func TestGoCodeCompiles(t *testing.T) {
	root, all := repository(t)
	importable, err := importables(os.DirFS(root), module)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, p := range all {
		for _, f := range p.fences {
			if f.lang != "go" {
				continue
			}
			text, err := goFile(root, p.path, f, importable)
			if err != nil {
				t.Error(err)
				continue
			}
			files = append(files, text)
		}
	}
	if len(files) == 0 {
		return
	}
	if out, err := vet(t, root, files); err != nil {
		t.Errorf("go vet of the Go code in documents: %v\n%s", err, out)
	}
}

// vet vets files, each a package of a module that depends on this one, as a
// user's does: what is internal is out of its reach.
func vet(t *testing.T, root string, files []string) ([]byte, error) {
	t.Helper()
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	gosum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	user := strings.Replace(string(gomod), "module "+module+"\n", "module example.com/user\n", 1) +
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n", module, root)
	dir := t.TempDir()
	write := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", []byte(user))
	write("go.sum", gosum)
	for i, text := range files {
		write(fmt.Sprintf("fence%d/fence.go", i), []byte(text))
	}
	// A fence may end with a return, after which come the lines that goFile
	// adds.
	return goCommand(t, dir, "vet", "-unreachable=false", "./...")
}

func goCommand(t *testing.T, dir string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

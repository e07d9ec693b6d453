// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

const module = "github.com/headgate/headgate"

func TestMain(m *testing.M) { os.Exit(testrun.Main(m)) }

// repository returns its root and what is in its documents.
func repository(t *testing.T) (root string, all []page) {
	t.Helper()
	testrun.NotUnderRace(t, "documents are read by one goroutine, and what they run is another process")
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

// A test that a document names, or the beginning of its name, is there. In blocks of code, names
// are examples.
func TestDocumentsNameTestsThatThereAre(t *testing.T) {
	root, all := repository(t)
	var there []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range testFunction.FindAllStringSubmatch(string(text), -1) {
			there = append(there, found[1])
		}
		return err
	})
	if err != nil || len(there) == 0 {
		t.Fatalf("%d tests, %v", len(there), err)
	}
	for _, p := range all {
		text, err := os.ReadFile(filepath.Join(root, p.path))
		if err != nil {
			t.Fatal(err)
		}
		prose := string(text)
		for _, f := range p.fences {
			prose = strings.ReplaceAll(prose, f.text, "")
		}
		for _, name := range testName.FindAllString(prose, -1) {
			if !slices.ContainsFunc(there, func(one string) bool { return strings.HasPrefix(one, name) }) {
				t.Errorf("%s: no test is named %s", p.path, name)
			}
		}
	}
}

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	testName     = regexp.MustCompile(`\bTest[A-Z][A-Za-z]+\b`)
)

func TestCommandsAreRunSomewhere(t *testing.T) {
	root, all := repository(t)
	known := make(map[string]string) // what commands say of themselves
	c := checker{tree: os.DirFS(root), help: func(program string, args ...string) (string, error) {
		whole := strings.Join(append([]string{program}, args...), " ")
		if out, ok := known[whole]; ok {
			return out, nil
		}
		out, err := exec.CommandContext(t.Context(), testrun.Program(t, program), append(args, "--help")...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s %s --help: %w\n%s", program, strings.Join(args, " "), err, out)
		}
		// Cobra shows a parent's help for a subcommand that is not there.
		if n := len(args); n > 0 && !strings.Contains(string(out), program+" "+strings.Join(args, " ")) {
			return "", fmt.Errorf("%s has no subcommand %s", program, strings.Join(args, " "))
		}
		known[whole] = string(out)
		return string(out), nil
	}}
	for _, p := range all {
		if slices.Contains(runWhole, p.path) {
			continue
		}
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
	pages := make(map[string][]string)
	for _, p := range all {
		for _, f := range p.fences {
			if f.lang != "go" || f.from != "" {
				continue
			}
			text, err := goFile(root, p.path, f, importable)
			if err != nil {
				t.Error(err)
				continue
			}
			pages[p.path] = append(pages[p.path], text)
		}
	}
	if len(pages) == 0 {
		return
	}
	if out, err := vet(t, root, pages); err != nil {
		t.Errorf("go vet of the Go code in documents: %v\n%s", err, out)
	}
}

func TestCodeIsAsInTheFileItIsFrom(t *testing.T) {
	root, all := repository(t)
	for _, p := range all {
		for _, f := range p.fences {
			if f.from == "" {
				continue
			}
			if err := f.isFrom(os.DirFS(root), path.Dir(p.path)); err != nil {
				t.Errorf("%s:%d: %v", p.path, f.line, err)
			}
		}
	}
}

// vet vets the files of pages, each a package of a module that depends on this one, as a
// user's does: what is internal is out of its reach. Then it runs the tests that
// are among them. The tests of one page are one package, so that they are linked once.
func vet(t *testing.T, root string, pages map[string][]string) ([]byte, error) {
	t.Helper()
	dir := userModule(t, root)
	tests := []string{"test", "-vet=off", "-ldflags=-w"} // vetted before
	for page, files := range pages {
		page := "./" + strings.TrimSuffix(page, ".md")
		for i, text := range files {
			if !hasTest.MatchString(text) {
				write(t, filepath.Join(dir, page, fmt.Sprintf("fence%d", i), "fence.go"), text)
				continue
			}
			write(t, filepath.Join(dir, page, fmt.Sprintf("fence%d_test.go", i)), text)
			if !slices.Contains(tests, page) {
				tests = append(tests, page)
			}
		}
	}
	// A fence may end with a return, after which come the lines that goFile
	// adds.
	out, err := goCommand(t, dir, "vet", "-unreachable=false", "./...")
	if err == nil && len(tests) > 3 {
		out, err = goCommand(t, dir, tests...)
	}
	return out, err
}

var hasTest = regexp.MustCompile(`(?m)^func Test\w*\(\w+ \*testing\.T\)`)

// userModule returns a folder with a module that depends on this one.
func userModule(t *testing.T, root string) (dir string) {
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
	dir = t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), user)
	write(t, filepath.Join(dir, "go.sum"), string(gosum))
	return dir
}

// write writes a file, and makes its folder.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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

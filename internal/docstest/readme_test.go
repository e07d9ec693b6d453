// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/waittest"
)

// curl is what README tells the reader to type after `go run .`. The test does
// both by other means.
const curl = `curl 'http://127.0.0.1:8080/?tenant=orders'`

// TestREADMEsProgramRuns starts the program as README has it, sends a request,
// and ends it. Only its ports are others, because they may be in use.
func TestREADMEsProgramRuns(t *testing.T) {
	root, all := repository(t)
	ports := make(map[string]string)
	move := func(text string) string {
		return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(text, func(address string) string {
			if ports[address] == "" {
				ports[address] = addresstest.Free(t, 1)[0]
			}
			return ports[address]
		})
	}
	dir := userModule(t, root)
	for _, p := range all {
		if p.path != "README.md" {
			continue
		}
		for _, f := range p.fences {
			switch {
			case strings.HasPrefix(f.text, "# limits.yaml\n"):
				write(t, filepath.Join(dir, "limits.yaml"), f.text)
			case strings.HasPrefix(f.text, "package main\n"):
				write(t, filepath.Join(dir, "main.go"), move(f.text))
			}
		}
	}
	if out, err := goCommand(t, dir, "build", "-ldflags=-w", "-o", "program", "."); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	program := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
	program.Dir = dir
	var out bytes.Buffer
	program.Stdout, program.Stderr = &out, &out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()

	url := move(strings.Trim(strings.TrimPrefix(curl, "curl "), "'"))
	var answer string
	waittest.Until(t, "README's program answers", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the program ended: %v\n%s", err, &out)
		default:
		}
		r, err := http.Get(url)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		answer = r.Status + " " + string(body)
		return err == nil
	})
	if answer != "200 OK hello\n" {
		t.Errorf("the answer is %q", answer)
	}
	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, &out)
	}
}

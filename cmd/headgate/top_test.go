// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/toptui"
)

const topRules = `
defaults: {update_interval: 200ms, lease: 2s, ask_timeout: 10s} # no event is decided by the fallback where owners answer late
limits:
  - {key: "k*", limit: 1/s, algorithm: exact} # less than the test asks for, on a slow machine too
  - {key: "free*", limit: 1000000/s, algorithm: exact}
  - {key: "secret:*", limit: 5/s, algorithm: exact, private: true}
`

// Every daemon shows what programs ask of all of them, once and live, until it is gone.
func TestTopOfTwoDaemons(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and watches them for seconds")
	}
	t.Parallel()
	operators, token := operatorsFile(t)
	c := newMemberCluster(t, 2, false, topRules, "--operators", operators, "--http", "127.0.0.1:0")
	evil := "k\x1b[2Jevil"
	var programs []string // the URL of each daemon's edge
	for _, n := range c.nodes {
		n.process.ready(t)
		line, err := n.process.stdout.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, "http://"+strings.Fields(line)[1]+"/v1/allow")
	}
	use := func() {
		for _, url := range programs {
			for _, key := range []string{"k1", "k1", "k1", evil, "free", "secret:alice"} {
				body, err := json.Marshal(map[string]any{"key": key})
				if err != nil {
					t.Fatal(err)
				}
				answer, err := http.Post(url, "application/json", bytes.NewReader(body))
				if err != nil {
					continue // a server may close a connection between two requests
				}
				_ = answer.Body.Close()
			}
		}
	}
	eventually(t, "the use at both daemons is seen from one", func() bool {
		use()
		var p toptui.Picture
		out, said, err := execute(t, "top", "--admin", c.admins[0], "--token-file", token, "-o", "json", "--sort", "name")
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if err := json.Unmarshal([]byte(out), &p); err != nil {
			t.Fatal(err)
		}
		for _, k := range p.Keys {
			if k.Key == "k1" {
				return k.Rejected > 0 && k.Allowed > 0 && k.Hosts == 2 && k.Utilization != nil && len(k.RecentAllowed) > 0
			}
		}
		return false
	})
	at := []string{"--admin", c.admins[1], "--token-file", token}
	var out string
	eventually(t, "the use is seen from the other", func() bool {
		use()
		var said string
		var err error
		if out, said, err = execute(t, append([]string{"top", "--once", "--like", "k"}, at...)...); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return strings.Contains(out, "evil")
	})
	runtest.Expect(t, "top", out, "2 of 2 hosts up", `k\x1b[2Jevil`, "1/s", c.nodes[0].cluster, c.nodes[1].cluster)
	if strings.Contains(out, "\x1b") || strings.Contains(out, "free") || strings.Contains(out, "alice") {
		t.Errorf("top --once prints %q", out)
	}

	live(t, c, 1, at, use)
}

// live runs headgate top in a pseudo terminal, of which util-linux's script is the other end. It calls use
// while it waits for a screen: top lists only the keys that are in use.
func live(t *testing.T, c *memberCluster, i int, at []string, use func()) {
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("no script of util-linux, for a pseudo terminal")
	}
	command := "stty cols 100 rows 30; exec " + testrun.Headgate(t) + " top --interval 100ms --timeout 2s " + strings.Join(at, " ")
	cmd := exec.Command(script, "-qec", command, os.DevNull)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=1")
	var screen typescript
	cmd.Stdout, cmd.Stderr = &screen, &screen
	keyboard, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("on the screen: %q", screen.text())
		}
	})
	press := func(key, then string) {
		t.Helper()
		before := len(screen.text())
		if _, err := io.WriteString(keyboard, key); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the screen shows "+then, func() bool {
			use()
			return strings.Contains(screen.text()[before:], then)
		})
	}
	press("", `\x1b[2Jevil`)
	press("/evil\r", "evil")
	eventually(t, "the screen shows why the key is limited", func() bool {
		use()
		if _, err := io.WriteString(keyboard, "\r"); err != nil { // opens nothing while no key is listed
			t.Fatal(err)
		}
		return strings.Contains(screen.text(), `why k\x1b[2Jevil is limited as it is`)
	})
	press("\x1b", "REFUSED")
	press("\t", "FALLB")
	c.nodes[i].kill()
	eventually(t, "the screen says that the picture is stale", func() bool { return strings.Contains(screen.text(), "STALE since") })
	if strings.Contains(screen.text(), "\x1b[38;") || strings.Contains(screen.text(), "\x1b[31m") {
		t.Error("there are colours, in spite of NO_COLOR")
	}
	if _, err := io.WriteString(keyboard, "q"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("top ends with %v", err)
	}
	if !strings.Contains(screen.text(), "\x1b[?1049l") {
		t.Error("the screen is not as it was")
	}
}

// typescript is what a program printed. It is safe for concurrent use.
type typescript struct {
	mu      sync.Mutex // guards what follows
	printed bytes.Buffer
}

func (s *typescript) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printed.Write(text)
}

func (s *typescript) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printed.String()
}

// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
)

const limits = `# the limits of a shop
limits:
  - {key: "orders:*", limit: 100/s, description: orders of one customer}
  - {key: "login:*", limit: 5/m, burst: 5, algorithm: exact}
  - {key: "people:*", limit: 10/s, private: true}
  - {key: search, limit: 300/s}
unmatched: deny
`

// cluster is five daemons with one database of limits.
type cluster struct {
	dir    string
	admins []string
	webs   []string
	nodes  []*exec.Cmd
	tokens map[string]string // by the names of operators
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir(), tokens: make(map[string]string)}
	headgate := testrun.Headgate(t)
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), headgate, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("headgate %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	policy := "callers:\n"
	for name, rights := range map[string]string{"ada": `see: ["*"], change: ["*"]`, "grace": `see: ["orders:*"]`} {
		lines := strings.Split(strings.TrimSpace(run("token")), "\n")
		c.tokens[name] = lines[0]
		policy += fmt.Sprintf("  - {name: %s, tokens: [%q], %s}\n", name, lines[1], rights)
	}
	operators, file, db := filepath.Join(c.dir, "operators.yaml"), filepath.Join(c.dir, "limits.yaml"), filepath.Join(c.dir, "db")
	for path, text := range map[string]string{operators: policy, file: limits} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(db, 0o700); err != nil {
		t.Fatal(err)
	}
	run("limits", "apply", "--limits-db", db, file, "-m", "the first limits", "--author", "ada", "--yes")
	const size = 5
	free := addresstest.Free(t, 4*size)
	c.admins, c.webs = free[2*size:3*size], free[3*size:]
	for i := range size {
		var log bytes.Buffer
		node := exec.Command(headgate, "serve", "--limits-db", db, "--operators", operators, "--members", strings.Join(free[:size], ","), "--lame-duck", "0s",
			"--listen", free[i], "--edge", free[size+i], "--admin", c.admins[i], "--http", c.webs[i])
		node.Stderr = &log
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, node)
		t.Cleanup(func() {
			_ = node.Process.Kill()
			_ = node.Wait()
			if t.Failed() {
				t.Logf("daemon %d logged:\n%s", i, log.String())
			}
		})
	}
	for _, web := range c.webs {
		waittest.Until(t, "a daemon answers", func() bool {
			answer, err := http.Get("http://" + web + "/readyz")
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
	c.load(t)
	return c
}

// load asks daemons for many keys until the test ends.
func (c *cluster) load(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		loops.Wait()
	})
	for i, web := range c.webs {
		loops.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				key := "search"
				switch {
				case n%25 == 0:
					key = "login:alice"
				case n%20 == 0:
					key = fmt.Sprintf("people:%d", n%7)
				case n%2 == 0:
					key = fmt.Sprintf("orders:%d", (n/2+i)%12)
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+web+"/v1/allow", strings.NewReader(`{"key": "`+key+`"}`))
				if err != nil {
					return
				}
				r.Header.Set("Content-Type", "application/json")
				if answer, err := http.DefaultClient.Do(r); err == nil { // else the daemon was killed
					_, _ = io.Copy(io.Discard, answer.Body) // or the next call needs another connection
					answer.Body.Close()
				}
			}
		})
	}
}

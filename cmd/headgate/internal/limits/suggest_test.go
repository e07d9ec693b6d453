// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/dynamicconfig"
)

// Suggestions that leave keys out, or are without some members, say so.
func TestSuggestionsSayWhatTheyLack(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"suggestions": [{"key": "a"}]}`:              "",
		`{"suggestions": [{"key": "a"}], "silent": 1}`: "1 member does not answer, so what happened there is in no peak, and a limit may have to be higher\n",
		`{"suggestions": [{"key": "a"}], "more": 7}`:   "these are the keys that were used most, and there are 7 more: -n 200 lists more, --like chooses\n",
		`{"suggestions": []}`:                          "no such key was used during the last hour\n",
	} {
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		out, said, err := execute(t, "limits", "suggest", "--admin", strings.TrimPrefix(daemon.URL, "http://"))
		daemon.Close()
		if err != nil || said != want || !strings.HasPrefix(out, "KEY") {
			t.Errorf("%s: %q, %q, %v", answer, out, said, err)
		}
	}
}

// A dry run takes a folder, as the other commands that read a file do, and shows where a mistake is.
func TestADryRunOfAFolder(t *testing.T) {
	var asked []byte
	decider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ = io.ReadAll(r.Body)
		fmt.Fprint(w, "{}")
	}))
	defer decider.Close()
	on := []string{"dry-run", "--admin", decider.Listener.Addr().String()}
	dir := filepath.Dir(runtest.File(t, "a.yaml", "limits:\n  - {key: orders, limit: 5/s}\n"))
	if err := os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("limits:\n  - {key: mail, limit: 7/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, append(on, dir)...)
	s, err := dynamicconfig.Parse("asked", asked)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"orders", "mail"} {
		if _, ok := s.Match(key); !ok {
			t.Errorf("%s is not in %s", key, asked)
		}
	}
	refused(t, "cannot be used", append(on, runtest.File(t, "limits.yaml", "limits: [{key: orders, limit: 5}]"))...)
}

// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/command"
)

// execute runs a command of this package as headgate does.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runtest.Run(t, command.Root(&cobra.Command{Use: "headgate"}, Commands()...), nil, args...)
}

// A list of keys that ends before the last one says so, and a list of all says nothing.
func TestAListOfKeysSaysThatThereAreMore(t *testing.T) {
	t.Parallel()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("like") != "" {
			fmt.Fprint(w, `{"keys": []}`)
			return
		}
		if q.Get("after") == "b" {
			fmt.Fprint(w, `{"keys": [{"key": "c"}], "total": 1}`)
			return
		}
		fmt.Fprint(w, `{"keys": [{"key": "a"}, {"key": "b"}], "total": 1, "next": "b"}`)
	}))
	defer daemon.Close()
	at := []string{"keys", "--admin", strings.TrimPrefix(daemon.URL, "http://")}
	_, said, err := execute(t, append(at, "-n", "2")...)
	if err != nil || said != "there are more keys than these 2: -n 20 lists more\n" {
		t.Errorf("%q, %v", said, err)
	}
	out, said, err := execute(t, append(at, "-n", "3")...)
	if err != nil || said != "" || strings.Count(out, "\n") != 4 {
		t.Errorf("%q, %q, %v", said, out, err)
	}
	if _, said, err := execute(t, append(at, "--like", "login:*")...); err != nil || !strings.Contains(said, `contains "login:*": --like takes a part of a key, and no pattern`) {
		t.Errorf("%q, %v", said, err)
	}
	if out, _, err := execute(t, append(at, "-n", "0")...); err == nil || err.Error() != "keys: --number 0: list 1 key or more" || out != "" {
		t.Errorf("%q, %v", out, err)
	}
}

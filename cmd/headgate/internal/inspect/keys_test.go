// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

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

// The command ends when its reader has ended, as in `headgate events | head -1`, although no other event comes.
func TestEventsEndWithTheirReader(t *testing.T) {
	t.Parallel()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: {\"kind\": \"member\", \"text\": \"one\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer daemon.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	root := command.Root(&cobra.Command{Use: "headgate"}, Commands()...)
	root.SetOut(write)
	root.SetArgs([]string{"events", "--admin", strings.TrimPrefix(daemon.URL, "http://")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || !strings.Contains(line, "one") {
		t.Errorf("%q, %v", line, err)
	}
	read.Close()
	if err := <-ended; err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// A decider that is restarted is asked again for what came after the events that are known; one that takes the right
// away is not.
func TestEventsOfADeciderThatIsRestarted(t *testing.T) {
	t.Parallel()
	var asked []string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		switch len(asked) {
		case 1, 3:
			fmt.Fprintf(w, "id: %d@a\nevent: member\ndata: {\"kind\": \"member\", \"text\": \"event %[1]d\"}\n\n", len(asked))
		case 2:
			http.Error(w, `{"title": "Service Unavailable", "status": 503, "detail": "not yet"}`, http.StatusServiceUnavailable)
		default:
			http.Error(w, `{"title": "Unauthorized", "status": 401, "detail": "who are you?"}`, http.StatusUnauthorized)
		}
	}))
	defer daemon.Close()
	out, said, err := execute(t, "events", "--admin", strings.TrimPrefix(daemon.URL, "http://"))
	if err == nil || !strings.Contains(err.Error(), "who are you?") || strings.Join(asked, " ") != " 1@a 1@a 3@a" {
		t.Errorf("%v, and %q was asked", err, asked)
	}
	runtest.Expect(t, "events", out, "event 1\n", "event 3\n")
	if strings.Count(said, "the decider does not answer any more, and is asked again\n") != 2 {
		t.Errorf("said %q", said)
	}
}

// A report of migrations says whose decisions it lacks, and what it leaves out.
func TestAReportOfMigrationsSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"silent": 2, "migrations": [{"rule": "a", "keys": [{"key": "a"}], "more": 3}]}`)
	}))
	defer daemon.Close()
	out, said, err := execute(t, "shadow", "report", "--admin", strings.TrimPrefix(daemon.URL, "http://"))
	if err != nil || said != "2 members do not answer, so what was decided there is not counted\n" || !strings.HasSuffix(out, "\n  … and 3 more, which differ less\n") {
		t.Errorf("%q, %q, %v", out, said, err)
	}
}

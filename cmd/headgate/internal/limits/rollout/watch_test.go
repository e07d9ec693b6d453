// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// storeAt is the limits of a decider that answers with handler.
func storeAt(t *testing.T, handler http.HandlerFunc) adminclient.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	d := adminclient.Decider{Address: server.Listener.Addr().String()}
	client, err := d.Client()
	if err != nil {
		t.Fatal(err)
	}
	return adminclient.Store{Client: client}
}

func fails(w http.ResponseWriter, status int, detail string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply.Problem{Title: "t", Status: status, Detail: detail, Newest: 9})
}

var before, stored = history.Version{Number: 3, Text: "limits: []"}, history.Version{Number: 4}

// A change that rejects too much is taken back although the decider is restarted just then, and
// although its answer is lost.
func TestAChangeIsTakenBackAlthoughTheDeciderIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		again func(w http.ResponseWriter, r *http.Request) // answers the second attempt
		want  string
	}{
		"it is back": {func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(versions.Outcome{Version: 5})
		}, "version 4 is taken back, and version 5 has the limits of version 3"},
		"its answer was lost": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				fails(w, http.StatusPreconditionFailed, "another version")
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"versions": []versions.Version{{Number: 5, Message: "version 4 is taken back: 50.0% of 100 were rejected, and 5% was the most"}}})
		}, "version 4 is taken back, and version 5 has the limits of version 3"},
		"another change came first": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				fails(w, http.StatusPreconditionFailed, "another version")
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"versions": []versions.Version{{Number: 5, Message: "theirs"}}})
		}, "version 4 was not taken back"},
		"the right is gone": {func(w http.ResponseWriter, _ *http.Request) { fails(w, http.StatusForbidden, "you may not") }, "version 4 was not taken back: you may not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			puts := 0 // by one request after the other
			s := storeAt(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					puts++
				}
				if puts == 1 {
					fails(w, http.StatusServiceUnavailable, "the database is locked")
					return
				}
				tt.again(w, r)
			})
			w := Watch{above: "5%"}
			err := w.back(t.Context(), io.Discard, s, before, stored, &lasthour.DryRun{Offered: 100, Rejected: 50})
			if err == nil || !strings.Contains(err.Error(), tt.want) || puts != 2 {
				t.Errorf("%v after %d attempts, want %q", err, puts, tt.want)
			}
		})
	}
}

// With --roll-back-above, a command that cannot see what its change rejects ends with an error, and
// makes no further step.
func TestAChangeThatNobodyCouldWatchIsNoSuccess(t *testing.T) {
	t.Parallel()
	s := storeAt(t, func(w http.ResponseWriter, r *http.Request) {
		if under := r.URL.Query().Get("under"); r.Method == http.MethodPost && under != stored.Name() {
			t.Errorf("it asks what is rejected under %q", under)
		}
		fails(w, http.StatusServiceUnavailable, "members do not answer")
	})
	w := Watch{above: "5%", part: 0.05, length: watchFrom + time.Second}
	if err := w.Run(t.Context(), io.Discard, s, before, stored); err == nil || !strings.Contains(err.Error(), "version 4 stays, and what it rejects is not known") {
		t.Error(err)
	}
	w.above = ""
	if err := w.Run(t.Context(), io.Discard, s, before, stored); err != nil {
		t.Errorf("nothing is to be taken back: %v", err)
	}
}

// A watch ends with an error when a later change replaces the one that it watches.
func TestAChangeThatAnotherOneFollowsIsNotWatched(t *testing.T) {
	t.Parallel()
	s := storeAt(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(lasthour.DryRun{})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"versions": []versions.Version{{Number: 5, Message: "theirs"}}})
	})
	w := Watch{above: "5%", part: 0.05, length: time.Minute}
	if err := w.Run(t.Context(), io.Discard, s, before, stored); err == nil || !strings.Contains(err.Error(), "version 5 came after version 4, which is not watched any more") {
		t.Error(err)
	}
	w.above = ""
	var out strings.Builder
	if err := w.Run(t.Context(), &out, s, before, stored); err != nil || !strings.Contains(out.String(), "version 5 came after version 4") {
		t.Errorf("nothing was to be taken back: %v, %s", err, out.String())
	}
}

// SPDX-License-Identifier: Apache-2.0

package lasthour

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/recent"
)

func TestSuggestionsAreRoundedUp(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.3: 1, 1: 1, 99.5: 100, 101: 110, 1234: 1300, 1e6: 1e6} {
		if got := round(v); got != want {
			t.Errorf("round(%v) = %v, want %v", v, got, want)
		}
	}
}

// hung is the past of some keys at members of which one, b, hangs, and c from the second key on.
type hung []recent.Total

func (h hung) Totals(ctx context.Context) ([]recent.Total, time.Time, []string) {
	<-ctx.Done()
	return h, time.Now().Add(-recent.Hour), []string{"b"}
}

func (h hung) Series(ctx context.Context, w Wanted) (map[string][]recent.Point, []string) {
	hosts := map[string][]recent.Point{"a": {{Second: time.Now().Unix() - 10, Length: 1, Allowed: 10}}}
	var silent []string
	for _, name := range []string{"b", "c"} {
		if !slices.Contains(w.Without, name) && (name == "b" || w.Key != h[0].Key) {
			silent = append(silent, name)
			<-ctx.Done()
		}
	}
	return hosts, silent
}

// A dry run and suggestions do without members that hang, whenever these begin to, before their callers lose patience, and
// say which these are. Suggestions say how many keys they leave out.
func TestAMemberThatHangsIsWaitedForAsLongAsAnyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snapshot, err := dynamicconfig.Parse("limits", []byte("limits: [{key: 'k:*', limit: 1/s}]"))
		if err != nil {
			t.Fatal(err)
		}
		a := &Answers{History: hung{{Key: "k:1"}, {Key: "k:2"}, {Key: "other"}, {Key: "k:3"}}, Limits: dynamicconfig.NewLive(snapshot)}
		for path, ask := range map[string]reply.Handler{"/v1/limits/suggest?n=2&like=k:": a.suggest, "/v1/limits/dry-run": a.dryRun} {
			began, w := time.Now(), httptest.NewRecorder()
			if err := ask(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("limits: [{key: 'k:*', limit: 2/s}]")), nil); err != nil {
				t.Fatal(path, err)
			}
			if took := time.Since(began); took > maxAsking {
				t.Errorf("%s: %v", path, took)
			}
			var said struct {
				Keys         []DryKey
				Silent, More int
				Members      []string `json:"silent_members"`
				Suggestions  []Suggestion
			}
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Silent != 2 || !slices.Equal(said.Members, []string{"b", "c"}) {
				t.Errorf("%s: %v, %s", path, err, w.Body)
			}
			if path == "/v1/limits/dry-run" && (len(said.Keys) != 3 || said.Keys[2].Hosts != 1) {
				t.Errorf("%s", w.Body)
			}
			if path != "/v1/limits/dry-run" && (said.More != 1 || len(said.Suggestions) != 2) {
				t.Errorf("%s", w.Body)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package lasthour

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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

// hung is the past of some keys at members of which one hangs until it is found to be down.
type hung []recent.Total

func (h hung) Totals(ctx context.Context) ([]recent.Total, time.Time, int) {
	<-ctx.Done()
	return h, time.Now().Add(-recent.Hour), 1
}

func (h hung) Series(context.Context, Wanted) (map[string][]recent.Point, int) {
	return map[string][]recent.Point{"a": {{Second: time.Now().Unix() - 10, Length: 1, Allowed: 10}}}, 0
}

// A dry run and suggestions do without a member that hangs before their callers lose patience, and say so. Suggestions
// say how many keys they leave out.
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
			if took := time.Since(began); took > reply.MaxWait {
				t.Errorf("%s: %v", path, took)
			}
			var said struct {
				Silent, More int
				Suggestions  []Suggestion
			}
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Silent != 1 {
				t.Errorf("%s: %v, %s", path, err, w.Body)
			}
			if path != "/v1/limits/dry-run" && (said.More != 1 || len(said.Suggestions) != 2) {
				t.Errorf("%s", w.Body)
			}
		}
	})
}

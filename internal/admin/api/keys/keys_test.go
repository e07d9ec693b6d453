// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
)

// A list of the keys with the largest amounts takes memory for the keys that it lists, and not for all keys.
func TestAListByAmountKeepsOnlyWhatItLists(t *testing.T) {
	const n = 50_000
	rule := &dynamicconfig.Rule{Key: "k:*"}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("k:", i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
	a := Answers{Limits: dynamicconfig.NewLive(nil), Source: Source{
		InUse: func() []string { return names },
		Counts: func(f func(limiter.Count)) {
			for i, name := range names {
				f(limiter.Count{Key: name, Rule: rule, Allowed: int64(i), Rejected: int64(n - i)})
			}
		},
		Programs: func(f func(key string, allowed, rejected float64)) { f("k:7", n, 0) },
		Owned:    func(string) []explain.Owned { return nil },
		Look:     func(key string) explain.Key { return explain.Key{Key: key, InUse: true} },
	}}
	list := func(sort string) string {
		w := httptest.NewRecorder()
		if err := a.keys(w, httptest.NewRequest(http.MethodGet, "/v1/keys?n=2&sort="+sort, nil), nil); err != nil {
			t.Fatal(err)
		}
		return w.Body.String()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	allowed, rejected := list("allowed"), list("rejected")
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<10 {
		t.Errorf("two lists of %d keys take %d bytes", n, bytes)
	}
	for list, first := range map[string][]string{allowed: {"k:7", names[n-1]}, rejected: {names[0], names[1]}} {
		if at := strings.Index(list, `"`+first[0]+`"`); at < 0 || !strings.Contains(list[at:], `"`+first[1]+`"`) {
			t.Errorf("%v are first, and the list is %s", first, list)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A report has, of each key, what was used and was in no report that was answered, whether the key
// has a Subject, has lost some, or has got another. The naive twin is one number for each key.
func TestRetiredSubjectsReportWhatANaiveSumSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHost(t, 1000, dynamicconfig.Traits{}, 1)
		unanswered := make(map[string]int64)
		retired := make(map[string][]*Subject)
		now := stage.Instant(0)
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		live := func(key string) *Subject { return h.successor(key, "") }
		use := func(key string, s *Subject) {
			take(s, now, 1)
			unanswered[key]++
		}
		report := func(answer bool) {
			now += second
			got, want := make(map[string]int64), make(map[string]int64)
			batches := h.report(now)
			for _, b := range batches {
				for i, key := range b.Usage.Keys {
					got[key] += b.Usage.Allowed[i] + b.Usage.Rejected[i]
				}
			}
			for key, n := range unanswered {
				if n > 0 || live(key) != nil { // a live key is reported in each round
					want[key] = n
				}
			}
			if !maps.Equal(got, want) {
				rt.Fatalf("at %d s it reports %v, want %v", now/second, got, want)
			}
			for _, b := range batches {
				if !answer {
					h.Fail(now, b, nil)
				} else {
					g := grants(b.Usage.Len(), 0.5, 10)
					g.Tokens = nil
					if err := h.Apply(now, b, nil, g, 1); err != nil {
						rt.Fatal(err)
					}
				}
				h.Done(b)
			}
			if answer {
				for key := range unanswered {
					unanswered[key] = 0
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"a key is used": func(rt *rapid.T) {
				key := names.Draw(rt, "key")
				s := live(key)
				if s == nil {
					s = h.use(now, key, 0)
				}
				use(key, s)
			},
			"a key is forgotten": func(rt *rapid.T) {
				key := names.Draw(rt, "key")
				s := live(key)
				if s == nil {
					return
				}
				rest := h.live[:0]
				for _, l := range h.live {
					if l != s {
						rest = append(rest, l)
					}
				}
				h.live = rest
				s.Retire(now)
				retired[key] = append(retired[key], s)
			},
			"a late caller": func(rt *rapid.T) {
				key := names.Draw(rt, "key")
				if all := retired[key]; len(all) > 0 {
					use(key, all[rapid.IntRange(0, len(all)-1).Draw(rt, "which")])
				}
			},
			"an answer":   func(*rapid.T) { report(true) },
			"no answer":   func(*rapid.T) { report(false) },
			"time passes": func(*rapid.T) { now += second / 4 },
		})
		report(true)
		report(true)
		if n := len(h.retired.subjects); n > 0 {
			rt.Fatal(fmt.Sprint(n, " are kept although all is answered"))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

const (
	interval = 3 * time.Second
	gap      = interval / PerInterval
	hour     = stage.Instant(time.Hour)
)

// twin is a lane as its doc says: each message to the owner costs one of InARow tokens,
// and one comes back in each gap.
type twin struct {
	saved   time.Duration // as many tokens as there are gaps in it
	at      stage.Instant // as of when
	waiting []string
	due     stage.Instant
}

// free is when there is a token.
func (l *twin) free() stage.Instant { return l.at.Add(gap - l.saved) }

// send notes a message at now.
func (l *twin) send(now stage.Instant) {
	l.saved = min(l.saved+now.Sub(l.at), InARow*gap) - gap
	l.at = now
}

func TestLanesAreLikeTheirTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lanes, twins := New[string](), map[string]*twin{}
		for _, owner := range []string{"a", "b", "c"} {
			twins[owner] = &twin{saved: InARow * gap, due: Never}
		}
		due := func() stage.Instant {
			return slices.MinFunc(slices.Collect(maps.Values(twins)), func(a, b *twin) int { return int(min(max(a.due-b.due, -1), 1)) }).due
		}
		now, items := hour, 0
		actions := map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner")
				at, of := now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(rt, "wait"))), twins[owner]
				item, waits := fmt.Sprint(owner, items), len(of.waiting) > 0 && rapid.Bool().Draw(rt, "again")
				if waits {
					item = rapid.SampledFrom(of.waiting).Draw(rt, "item")
				} else {
					items++
					of.waiting = append(of.waiting, item)
				}
				before := due()
				of.due = min(of.due, max(at, of.free()))
				if sooner := lanes.Add(owner, item, at, waits); sooner != (due() < before) {
					rt.Fatalf("%s at %v: sooner is %v", item, at, sooner)
				}
			},
			"take": func(rt *rapid.T) {
				now = max(now, min(lanes.Due(), now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(rt, "time")))))
				all, dropped := rapid.Bool().Draw(rt, "all"), rapid.IntRange(0, 3).Draw(rt, "drops")
				sends := func(item string) bool { return dropped == 0 || len(item)%dropped == 0 }
				var want []string
				for _, of := range twins {
					if !all && of.due > now {
						continue
					}
					n := len(want)
					for _, item := range of.waiting {
						if sends(item) {
							want = append(want, item)
						}
					}
					if of.waiting, of.due = nil, Never; len(want) > n && !all {
						of.send(now)
					}
				}
				got := lanes.Take(now, all, interval, sends)
				slices.Sort(got)
				if slices.Sort(want); !slices.Equal(got, want) {
					rt.Fatalf("at %v, all %v: %v, want %v", now, all, got, want)
				}
			},
			"": func(rt *rapid.T) {
				if got, want := lanes.Due(), due(); got != want {
					rt.Fatalf("due at %v, want %v", got, want)
				}
			},
		}
		actions["flood"] = func(rt *rapid.T) {
			for range InARow + 5 {
				actions["add"](rt)
				actions["take"](rt)
			}
		}
		rt.Repeat(actions)
	})
}

// However often keys report, an owner gets PerInterval messages in an interval, and InARow
// more after a quiet time. Its items wait in order.
func TestAnOwnerGetsFewMessages(t *testing.T) {
	l := New[int]()
	messages, next := 0, 0
	for now := hour; now < hour.Add(10*interval); now += stage.Instant(time.Millisecond) {
		l.Add("a", next, now, false)
		next++
		if got := l.Take(now, false, interval, func(int) bool { return true }); len(got) > 0 {
			if messages++; !slices.IsSorted(got) || got[len(got)-1] != next-1 {
				t.Fatalf("at %v: %v of %d", now, got, next)
			}
		}
	}
	if most := InARow + 10*PerInterval; messages < most-1 || messages > most {
		t.Errorf("%d messages, want %d", messages, most)
	}
}

// Owners to which nothing was sent lately are forgotten by a regular report, also those
// whose items waited for it.
func TestQuietOwnersAreForgotten(t *testing.T) {
	l := New[int]()
	for i := range 1000 {
		l.Add(fmt.Sprint(i), i, hour, false)
	}
	l.Take(hour, false, interval, func(int) bool { return true })
	if l.Take(hour, true, interval, func(int) bool { return true }); l.Owners() != 1000 {
		t.Errorf("%d owners just after a message", l.Owners())
	}
	if l.Take(hour.Add(InARow*gap), true, interval, func(int) bool { return true }); l.Owners() != 0 {
		t.Errorf("%d owners after a quiet time", l.Owners())
	}
}

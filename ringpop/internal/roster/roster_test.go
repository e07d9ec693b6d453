// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/ringpop"
)

// at is so many seconds after the beginning.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func host(address string) ringpop.Host { return ringpop.Host{Address: address} }

// ring is the addresses of v's hosts.
func (v View) ring() string {
	var all []string
	for _, h := range v.Hosts {
		all = append(all, h.Address)
	}
	return strings.Join(all, " ")
}

func TestAHostThatIsLostOftenWaits(t *testing.T) {
	for _, tc := range []struct {
		losses []float64
		now    float64
		until  float64 // 0: at once
	}{
		{nil, 10, 0},
		{[]float64{1, 2}, 2, 0},
		{[]float64{1, 2, 3}, 3, 8},
		{[]float64{1, 2, 3, 20}, 21, 30},
		{[]float64{1, 2, 3, 20, 40}, 41, 60},
		{[]float64{1, 2, 3, 20, 40, 70, 71, 72}, 73, 102}, // never longer than longestWait
		{[]float64{1, 2, 3}, 121.5, 0},                    // the first counts no more
		{[]float64{1, 2, 300}, 300, 0},
	} {
		var losses []time.Time
		for _, s := range tc.losses {
			losses = append(losses, at(s))
		}
		want := at(tc.until)
		if tc.until == 0 {
			want = time.Time{}
		}
		if got := waitEnds(losses, at(tc.now)); !got.Equal(want) {
			t.Errorf("lost at %v, now %v: until %v, want %v", tc.losses, tc.now, got.Sub(at(0)), tc.until)
		}
	}
}

// A host waits while more than half of the others say so, of those that it does not have wait itself.
func TestAHostWaitsAsMostOthersSay(t *testing.T) {
	for _, tt := range []struct {
		others  string // all but a; capital letters: a has them wait
		holding string // say that a waits
		want    string // the ring
	}{
		{"b c", "", "a b c"},
		{"b c", "b", "a b c"}, // the other half has it on the ring
		{"b c", "b c", "b c"},
		{"b c d", "b c", "b c d"},
		{"b", "b", "b"},
		{"B", "B", "a"},     // they were split some times
		{"B C", "B C", "a"}, // a alone was on the other side
		{"B c", "B", "a c"}, // of two that were together, b says so
		{"B c", "B c", "c"},
		{"", "", "a"},
	} {
		r := newRoster("a")
		r.Up(host("a"), false, at(0))
		for name := range strings.FieldsSeq(tt.others) {
			address := strings.ToLower(name)
			r.Up(host(address), false, at(0))
			if address != name {
				for i := range 3 {
					r.Down(address, "", at(1+float64(i)))
					r.Up(host(address), false, at(1.5+float64(i)))
				}
			}
			r.Holds(address, slices.Contains(strings.Fields(tt.holding), name))
		}
		if got := r.View(at(5)).ring(); got != tt.want {
			t.Errorf("of %q, %q have a wait: its ring is %q, want %q", tt.others, tt.holding, got, tt.want)
		}
		for _, s := range r.Standings(at(5)) {
			if held := !strings.Contains(tt.want, "a"); s.Host.Address == "a" && held != (s.State == ringpop.Held) {
				t.Errorf("of %q, %q have a wait: it is %v, %s", tt.others, tt.holding, s.State, s.Why)
			}
		}
	}
}

// A host that does not answer this one waits. It does not decide whether this one waits: of two that do not reach each other,
// both have to own keys.
func TestAHostThatDoesNotAnswerWaits(t *testing.T) {
	r := newRoster("a")
	for _, address := range []string{"a", "b", "c"} {
		r.Up(host(address), false, at(0))
	}
	if r.Silent("nobody", true) || r.Silent("b", false) || !r.Silent("b", true) || r.Silent("b", true) {
		t.Error("what is no news is news, or the other way round")
	}
	waits := func(want ...string) {
		t.Helper()
		if waiting, next := r.Waiting(at(1)); !slices.Equal(waiting, want) || !next.IsZero() {
			t.Errorf("%v wait until %v, want %v", waiting, next, want)
		}
	}
	waits("b")
	r.Holds("b", true)
	if got := r.View(at(1)).ring(); got != "a b c" {
		t.Errorf("b alone says that a waits: the ring is %q", got)
	}
	r.Holds("c", true)
	if got := r.View(at(1)).ring(); got != "b c" {
		t.Errorf("all that answer say that a waits: the ring is %q", got)
	}
	r.Silent("c", true)
	if got := r.View(at(1)).ring(); got != "a b c" {
		t.Errorf("none that answers says that a waits: the ring is %q", got)
	}
	waits("b", "c")
	r.Silent("c", false)
	r.Down("b", "", at(1))
	r.Up(host("b"), false, at(1))
	waits()
}

// A host that is gone has nobody wait, and is told of none that does.
func TestAHostThatIsGoneHasNoneWait(t *testing.T) {
	r := newRoster("a")
	for _, address := range []string{"a", "b", "c"} {
		r.Up(host(address), false, at(0))
	}
	if r.Holds("nobody", true) || !r.Holds("b", true) || r.Holds("b", true) {
		t.Error("what is no news is news, or the other way round")
	}
	for i := range 3 {
		r.Down("b", "", at(1+float64(i)))
		r.Up(host("b"), false, at(1.5+float64(i)))
	}
	r.Down("b", "", at(4))
	waiting, next := r.Waiting(at(5))
	if got := r.View(at(5)).ring(); got != "a c" || !slices.Equal(waiting, []string{"b"}) || !next.Equal(at(14)) {
		t.Errorf("the ring is %q; %v wait until %v", got, waiting, next.Sub(at(0)))
	}
	if waiting, next := r.Waiting(at(15)); len(waiting) != 0 || !next.IsZero() {
		t.Errorf("%v still wait, until %v", waiting, next)
	}
}

func TestTheWaitIsBoundedAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRoster("self")
		now := at(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 30_000).Draw(t, "ms")) * time.Millisecond)
			r.Up(host("a"), false, now)
			now = now.Add(time.Millisecond)
			r.Down("a", "", now)
		}
		r.Up(host("a"), false, now)
		lost := now
		for range 5 { // each View says when the next is due
			v := r.View(now)
			if len(v.Hosts) == 1 {
				break
			}
			if v.Next.IsZero() {
				t.Fatal("it waits for ever")
			}
			now = v.Next
		}
		if v := r.View(now); len(v.Hosts) != 1 || now.Sub(lost) > longestWait {
			t.Fatalf("%v after the last loss: %v", now.Sub(lost), v)
		}
		if n := len(r.members["a"].losses); n > maxLosses {
			t.Fatalf("%d losses are remembered", n)
		}
	})
}

// A host that others keep off their rings decides its keys for itself, and they decide them too.
func TestAHostThatEndsInOrderNeedNotWait(t *testing.T) {
	r := newRoster("self")
	for i := range 10 {
		r.Up(host("a"), false, at(2*float64(i)))
		if v := r.View(at(2 * float64(i))); v.ring() != "a" {
			t.Fatalf("after it ended %d times: the ring is %q", i, v.ring())
		}
		r.Left("a", at(2*float64(i)+1))
	}
}

func TestARoster(t *testing.T) {
	r := newRoster("a")
	for _, address := range []string{"a", "b", "c", "d"} {
		r.Up(host(address), false, at(0))
	}
	r.Up(host("edge"), true, at(0))
	check := func(when string, now float64, ring string, missing int) {
		t.Helper()
		if v := r.View(at(now)); v.ring() != ring || v.Missing != missing || v.Kept {
			t.Errorf("%s: %+v; want %q, %d missing", when, v, ring, missing)
		}
	}
	check("all are there", 1, "a b c d", 0)
	if !r.Down("b", "silence", at(10)) || r.Down("b", "silence", at(11)) || r.Down("nobody", "", at(11)) {
		t.Error("what is news is not told apart")
	}
	check("one is down", 11, "a c d", 0)
	if s := r.Standings(at(11))[1]; s.State != ringpop.Down || !s.Since.Equal(at(10)) || s.Why != "silence" {
		t.Errorf("b is %+v", s)
	}
	r.Up(host("b"), false, at(12))
	r.Left("c", at(12))
	check("it is back, another left", 13, "a b d", 0)

	r.Down("b", "", at(100))
	r.Down("d", "", at(104))
	check("most deciders are lost at once", 105, "a", 2)
	r.Down("edge", "", at(105))
	check("an observer, too", 106, "a", 2)
	check("for as long as it takes", 100_000, "a", 2)
	if s := r.Standings(at(106))[1]; !strings.Contains(s.Why, "larger side of a split") {
		t.Errorf("b: %+v", s)
	}
	r.Up(host("d"), false, at(106))
	check("one is back", 107, "a d", 0)
	r.Down("d", "", at(200))
	check("the last of two is gone", 201, "a", 0)
	check("long ago", 200+2*forget.Seconds(), "a", 0)
	if s := r.Standings(at(10_000)); len(s) != 1 {
		t.Errorf("who is long gone is shown: %v", s)
	}
}

// One of two, and half of any number, may as well be all that is left.
func TestOnlyTheSmallerSideOfASplitMissesTheOther(t *testing.T) {
	for _, tc := range []struct{ there, lost, missing int }{
		{1, 1, 0}, {1, 2, 2}, {2, 1, 0}, {2, 2, 0}, {2, 3, 3}, {3, 7, 7}, {7, 3, 0}, {5, 5, 0},
	} {
		r := newRoster("host-0")
		for i := range tc.there + tc.lost {
			r.Up(host(fmt.Sprintf("host-%d", i)), false, at(0))
		}
		for i := range tc.lost { // one after the other, each soon after the last
			r.Down(fmt.Sprintf("host-%d", tc.there+i), "", at(100+5*float64(i)))
		}
		if v := r.View(at(200)); v.Missing != tc.missing || len(v.Hosts) != tc.there {
			t.Errorf("%d of %d are there: %+v, want %d missing", tc.there, tc.there+tc.lost, v, tc.missing)
		}
		delete(r.members, fmt.Sprintf("host-%d", tc.there)) // one is off the list
		if v, want := r.View(at(200)), tc.lost-1; v.Missing != 0 && v.Missing != want {
			t.Errorf("one of %d is off the list: %+v", tc.lost, v)
		}
	}
}

func TestAnObserverThatReachesNoDeciderKeepsThem(t *testing.T) {
	r := newRoster("edge")
	r.Up(host("edge"), true, at(0))
	for _, address := range []string{"a", "b", "c"} {
		r.Up(host(address), false, at(0))
	}
	r.Down("a", "", at(1))
	r.Down("b", "", at(2))
	if v := r.View(at(2)); v.ring() != "c" || v.Missing != 2 || v.Kept {
		t.Errorf("one is left: %+v", v)
	}
	r.Down("c", "", at(3))
	if v := r.View(at(3)); v.ring() != "a b c" || !v.Kept {
		t.Errorf("none is left: %+v", v)
	}
}

// A program that is no member keeps the deciders that it lost, as an observer does. One decider alone has more likely
// died, and an observer never owns its keys.
func TestWhatIsKeptOfDecidersThatAreLost(t *testing.T) {
	for _, tt := range []struct {
		self string
		lost int
		ring string
	}{{"", 2, "host-0 host-1"}, {"edge", 2, "host-0 host-1"}, {"", 1, ""}, {"edge", 1, ""}} {
		r := newRoster(tt.self)
		if tt.self != "" {
			r.Up(host(tt.self), true, at(0))
		}
		for i := range tt.lost {
			r.Up(host(fmt.Sprintf("host-%d", i)), false, at(0))
			r.Down(fmt.Sprintf("host-%d", i), "", at(1))
		}
		if v := r.View(at(1)); v.ring() != tt.ring || v.Kept != (tt.lost > 1) {
			t.Errorf("%q lost %d: %+v", tt.self, tt.lost, v)
		}
	}
}

func TestAMemberThatIsBackHasNoReasonToBeAway(t *testing.T) {
	r := newRoster("a")
	r.Up(host("b"), false, at(0))
	r.Down("b", "no answer", at(1))
	r.Up(host("b"), false, at(2))
	if s := r.Standings(at(2)); len(s) != 1 || s[0].Why != "" || !s[0].Since.Equal(at(2)) {
		t.Errorf("%+v", s)
	}
}

// A Board says anew who is on the ring when another number of deciders is missing, also if the ring is as it was. It
// misses none that it keeps on the ring.
func TestABoardTellsOfThoseThatAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard("edge", slog.New(slog.DiscardHandler))
		missing := make(chan int, 10)
		go b.Watch(t.Context(), func([]ringpop.Host) { missing <- b.Missing() })
		b.Up(host("edge"), true)
		for _, address := range []string{"a", "b"} {
			b.Up(host(address), false)
		}
		b.Ready()
		says := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if len(missing) != 1 {
				t.Fatalf("%s: told %d times", what, len(missing))
			}
			if got := <-missing; got != want {
				t.Errorf("%s: %d are missing, want %d", what, got, want)
			}
		}
		says("all are there", 0)
		b.Unlisted(3)
		says("three are not listed", 3)
		b.Unlisted(0)
		says("they are back", 0)
		b.Down("a", "")
		says("one is lost", 0)
		b.Down("b", "")
		says("both are lost, and kept", 0)
	})
}

func TestAHostThatLeavesGivesItsKeysToOthersIfThereAreAny(t *testing.T) {
	r := newRoster("a")
	r.Up(host("a"), false, at(0))
	r.Up(host("b"), false, at(0))
	r.Left("a", at(1))
	if v := r.View(at(1)); v.ring() != "b" {
		t.Errorf("two hosts: %q", v.ring())
	}
	r.Left("b", at(2))
	if v := r.View(at(2)); v.ring() != "a" {
		t.Errorf("alone: %q", v.ring())
	}
}

func TestABoardTellsOfWhatChangesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard("a", slog.New(slog.DiscardHandler))
		ctx := t.Context()
		var mu sync.Mutex // protects told
		var told []string
		rings := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- b.Watch(ctx, func(hosts []ringpop.Host) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, View{Hosts: hosts}.ring())
			})
		}()
		b.Up(host("a"), false)
		if got := rings(); len(got) != 0 {
			t.Errorf("before it is ready: %v", got)
		}
		b.Ready()
		synctest.Wait()
		for range 3 {
			b.Up(host("b"), false)
			synctest.Wait()
			b.Down("b", "")
			synctest.Wait()
		}
		b.Up(host("b"), false)
		if got := rings(); len(got) != 7 || got[6] != "a" {
			t.Errorf("a host that comes and goes: %v", got)
		}
		time.Sleep(firstWait)
		if got := rings(); got[len(got)-1] != "a b" {
			t.Errorf("after its wait: %v", got)
		}
		b.Keep([]string{"a"})
		if got := rings(); got[len(got)-1] != "a" || len(b.roster.members) != 1 {
			t.Errorf("no longer listed: %v", got)
		}
	})
}

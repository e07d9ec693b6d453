// SPDX-License-Identifier: Apache-2.0

package ringpop_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/ringpop"
)

func TestLiveIsEmptyUntilItsFirstList(t *testing.T) {
	for name, live := range map[string]*ringpop.Live{"zero": {}, "new": ringpop.NewLive(7), "bad points": ringpop.NewLive(-1)} {
		if live.Ring() == nil || live.Ring().Len() != 0 || live.Owner("key") != "" {
			t.Errorf("%s: not an empty ring: %v", name, live.Ring())
		}
	}
}

func TestLiveKeepsItsRingWhenAListIsBad(t *testing.T) {
	live := ringpop.NewLive(7)
	for _, bad := range [][]ringpop.Host{hostsAt(""), hostsAt("b", "b")} {
		if err := live.Set(bad); err == nil || live.Ring().Len() != 0 {
			t.Errorf("Set(%v) = %v, %d hosts; want an error and none", bad, err, live.Ring().Len())
		}
	}
	if err := live.Set(hostsAt("a")); err != nil {
		t.Fatal(err)
	}
	good := live.Ring()
	if good.Points() != 7 {
		t.Errorf("%d points, want 7", good.Points())
	}
	if err := live.Set(hostsAt("b", "b")); err == nil {
		t.Error("no error")
	}
	if live.Ring() != good || live.Owner("key") != "a" {
		t.Errorf("the ring is now of %v", live.Ring().Hosts())
	}
	if err := live.Set(nil); err != nil || live.Ring().Len() != 0 {
		t.Errorf("an empty list: %v, %d hosts; want no error and none", err, live.Ring().Len())
	}
}

func TestLiveRefusesAbsurdPoints(t *testing.T) {
	if err := ringpop.NewLive(-1).Set(hostsAt("a")); err == nil || !strings.Contains(err.Error(), "choose") {
		t.Errorf("error %v, want one that says what to choose", err)
	}
}

// script is Members that tells some lists and ends.
type script struct {
	lists [][]ringpop.Host
	err   error
}

func (s script) Watch(_ context.Context, update func([]ringpop.Host)) error {
	for _, l := range s.lists {
		update(l)
	}
	return s.err
}

func TestRunTellsOfChangesAndOnlyOfChanges(t *testing.T) {
	var log bytes.Buffer
	live := ringpop.NewLive(0, ringpop.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	var seen [][2]int
	err := live.Run(t.Context(), script{lists: [][]ringpop.Host{
		nil,                   // still nobody
		hostsAt("a", "b"),     // 0 → 2
		hostsAt("b", "a"),     // the same
		hostsAt("a", "a"),     // refused
		hostsAt("a"),          // 2 → 1
		nil,                   // 1 → 0
		hostsAt("a", "b", ""), // refused
	}}, func(old, new *ringpop.Ring) {
		if live.Ring() != new {
			t.Error("told of a ring that is not in use")
		}
		seen = append(seen, [2]int{old.Len(), new.Len()})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]int{{0, 2}, {2, 1}, {1, 0}}
	if len(seen) != len(want) {
		t.Fatalf("changes %v, want %v", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("changes %v, want %v", seen, want)
		}
	}
	for _, words := range []string{`listed more than once`, "has no address", "level=WARN"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log does not say %q:\n%s", words, &log)
		}
	}
}

func TestRunReturnsWhyMembersCannotBeWatched(t *testing.T) {
	cannot := errors.New("no route")
	if err := ringpop.NewLive(0).Run(t.Context(), script{err: cannot}, nil); !errors.Is(err, cannot) {
		t.Errorf("Run = %v, want %v", err, cannot)
	}
}

func TestRunNeedsNobodyToTell(t *testing.T) {
	var live ringpop.Live
	if err := live.Run(t.Context(), script{lists: [][]ringpop.Host{hostsAt("a")}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := live.Owner("key"); got != "a" {
		t.Errorf("Owner = %q, want a", got)
	}
}

// TestReadersSeeWholeRings runs under the race detector: readers look up
// while writers replace the list, and see one list or the other.
func TestReadersSeeWholeRings(t *testing.T) {
	lists := [][]ringpop.Host{hostsAt("a", "b"), hostsAt("c", "d", "e")}
	owners := map[int]string{2: "ab", 3: "cde"}
	live := ringpop.NewLive(0)
	if err := live.Set(lists[0]); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 200 {
				if err := live.Set(lists[(i+w)%2]); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 2000 {
				ring := live.Ring()
				if owner := ring.Owner("key"); !strings.Contains(owners[ring.Len()], owner) {
					t.Errorf("%q owns a key of %v", owner, ring.Hosts())
					return
				}
				if live.Owner("key") == "" {
					t.Error("nobody owns the key")
				}
			}
		})
	}
	wg.Wait()
}

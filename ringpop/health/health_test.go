// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

// network is hosts that answer, refuse, or are silent.
type network struct {
	mu     sync.Mutex        // protects following fields
	states map[string]string // "" answers
	times  map[string]int    // pings of each

	pings atomic.Int64
}

func (n *network) set(state string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()

	for _, a := range addresses {
		n.states[a+port] = state
	}
}

// asked is how many pings a host got.
func (n *network) asked(address string) int {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.times[address+port]
}

func (n *network) ping(ctx context.Context, address string) error {
	n.pings.Add(1)
	n.mu.Lock()
	state := n.states[address]
	n.times[address]++
	n.mu.Unlock()
	switch state {
	case "refuses":
		return errors.New("connection refused")
	case "leaves":
		return fmt.Errorf("ping: %w", ErrLeaves)
	case "hangs":
		<-ctx.Done()
		return ctx.Err()
	case "this host stops": // for a minute
		time.Sleep(time.Minute)
		return ctx.Err()
	}
	return nil
}

// port is of all hosts; tests name them without it.
const port = ":1"

func hosts(addresses ...string) (all []ringpop.Host) {
	for _, a := range addresses {
		all = append(all, ringpop.Host{Address: a + port})
	}
	return all
}

// watched is what a test sees.
type watched struct {
	network network
	leaving chan struct{}
	listed  *hosted.Members
	members *Members
	log     bytes.Buffer

	mu   sync.Mutex // protects ring
	ring string
}

func (w *watched) see(t *testing.T, what, want string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.ring != want {
		t.Errorf("%s: ring %q, want %q", what, w.ring, want)
	}
}

// run calls test with the view that the host a has of a list.
func run(t *testing.T, list []ringpop.Host, test func(t *testing.T, w *watched)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{network: network{states: make(map[string]string), times: make(map[string]int)}, leaving: make(chan struct{})}
		var err error
		if w.listed, err = hosted.New(list...); err != nil {
			t.Fatal(err)
		}
		w.members = New(w.listed, Config{Self: "a" + port, Ping: w.network.ping, Leaving: w.leaving, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- w.members.Watch(ctx, func(hosts []ringpop.Host) {
				w.mu.Lock()
				defer w.mu.Unlock()

				var all []string
				for _, h := range hosts {
					all = append(all, strings.TrimSuffix(h.Address, port))
				}
				w.ring = strings.Join(all, " ")
			})
		}()
		test(t, w)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A process that stood still while it asked, as after SIGSTOP, has the pings time out that were under
// way. The other hosts have answered all the while.
func TestAProcessThatStoodStillMissesNobody(t *testing.T) {
	run(t, hosts("a", "b", "c"), func(t *testing.T, w *watched) {
		w.see(t, "at first", "a b c")
		for range 3 {
			time.Sleep(DefaultInterval / 2)
			w.network.set("this host stops", "b", "c")
			time.Sleep(DefaultInterval)
			w.network.set("", "b", "c")
			time.Sleep(time.Minute)
			w.see(t, "after a minute", "a b c")
		}
		if log := w.log.String(); log != "" && strings.Contains(log, "does not answer") {
			t.Error(log)
		}
	})
}

func TestAHostThatDoesNotAnswerIsLeftOut(t *testing.T) {
	for _, state := range []string{"refuses", "hangs"} {
		run(t, hosts("a", "b", "c"), func(t *testing.T, w *watched) {
			w.see(t, "at first", "a b c")
			time.Sleep(10*time.Second + DefaultInterval/2) // between two pings
			w.network.set(state, "b")
			time.Sleep(DefaultAfter - DefaultInterval - time.Millisecond) // its last answer may be an interval old
			w.see(t, "soon "+state, "a b c")
			time.Sleep(2*DefaultInterval + time.Millisecond)
			w.see(t, state, "a c")
			if s := w.members.Standings()[1]; s.State != ringpop.Down || !strings.Contains(s.Why, "no answer for 1.5s") {
				t.Errorf("%+v", s)
			}
			time.Sleep(time.Minute)
			w.see(t, "long "+state, "a c")
			if n := strings.Count(w.log.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings, want one:\n%s", n, &w.log)
			}
			w.network.set("", "b")
			time.Sleep(DefaultAfter/2 + 2*DefaultInterval)
			w.see(t, "it answers again", "a b c")
		})
	}
}

// A host that says that it leaves is off the ring with the next ping, before it is gone, and no
// host misses it then. It is back when it serves again.
func TestAHostThatLeavesIsNotMissed(t *testing.T) {
	run(t, hosts("a", "b", "c"), func(t *testing.T, w *watched) {
		time.Sleep(10*time.Second + DefaultInterval/2)
		w.network.set("leaves", "b")
		time.Sleep(DefaultInterval)
		w.see(t, "b leaves", "a c")
		time.Sleep(10 * time.Second)
		w.network.set("refuses", "b")
		time.Sleep(10 * time.Second)
		w.see(t, "b is gone", "a c")
		if s := w.members.Standings()[1]; s.State != ringpop.Left || w.members.Missing() != 0 || strings.Contains(w.log.String(), "level=WARN") {
			t.Errorf("%+v, %d missing:\n%s", s, w.members.Missing(), &w.log)
		}
		w.network.set("", "b")
		time.Sleep(DefaultInterval)
		w.see(t, "b is back", "a b c")
		close(w.leaving)
		w.see(t, "this host leaves", "b c")
		w.network.set("refuses", "b", "c")
		time.Sleep(10 * time.Second)
		w.see(t, "no host takes over", "a")
	})
}

// The list changes while a host leaves: other labels of that host do not bring it back.
func TestAHostThatLeavesStaysOffTheRingWhenTheListChanges(t *testing.T) {
	run(t, hosts("a", "b", "c"), func(t *testing.T, w *watched) {
		time.Sleep(time.Second)
		close(w.leaving)
		w.see(t, "this host leaves", "b c")
		list := hosts("a", "b")
		list[0].Labels = "zone=2"
		if err := w.listed.Set(list); err != nil {
			t.Error(err)
		}
		w.see(t, "it has other labels", "b")
	})
}

func TestAHostThatReachesNobodyMissesTheOthers(t *testing.T) {
	run(t, hosts("a", "b", "c"), func(t *testing.T, w *watched) {
		time.Sleep(time.Second)
		w.network.set("hangs", "b", "c")
		time.Sleep(time.Minute)
		w.see(t, "all are silent", "a")
		if n := w.members.Missing(); n != 2 {
			t.Errorf("%d are missing", n)
		}
		if n := strings.Count(w.log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors, want one:\n%s", n, &w.log)
		}
		w.network.set("", "c")
		time.Sleep(2 * time.Second)
		w.see(t, "one answers", "a c")
		if n := w.members.Missing(); n != 0 {
			t.Errorf("one answers, and %d are missing", n)
		}
		w.network.set("hangs", "c")
		time.Sleep(time.Minute)
		w.see(t, "the last one dies much later", "a")
	})
}

func TestPingsOfManyHostsAreBounded(t *testing.T) {
	for _, n := range []int{50, 500} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("host-%03d", i))
		}
		run(t, hosts(all...), func(t *testing.T, w *watched) {
			time.Sleep(20 * time.Second) // those on the way when the list came are done
			before := w.network.pings.Load()
			const watched = 200 * time.Second // a host whose ping falls into it or not, just so, hardly counts
			time.Sleep(watched)
			if rate := float64(w.network.pings.Load()-before) / watched.Seconds(); rate > 1.02*MostPings || rate < 0.9*MostPings {
				t.Errorf("of %d hosts, %.0f pings a second", n, rate)
			}
			stretch := time.Duration(max(n/50, 1))
			w.network.set("hangs", "host-007")
			time.Sleep(stretch * (DefaultAfter - DefaultInterval - time.Millisecond))
			if m := w.members.Standings()[7]; m.State != ringpop.Up {
				t.Errorf("of %d hosts, too early: %+v", n, m)
			}
			time.Sleep(stretch * 3 * DefaultInterval)
			synctest.Wait()
			if m := w.members.Standings()[7]; m.State != ringpop.Down {
				t.Errorf("of %d hosts, too late: %+v", n, m)
			}
		})
	}
}

func TestTheListMayChange(t *testing.T) {
	run(t, hosts("a", "b"), func(t *testing.T, w *watched) {
		w.network.set("refuses", "b")
		time.Sleep(2 * time.Second)
		w.see(t, "one is down", "a")
		if err := w.listed.Set(hosts("a", "c")); err != nil {
			t.Error(err)
		}
		w.see(t, "another is listed", "a c")
		time.Sleep(time.Minute)
		w.see(t, "it answers", "a c")
		if s := w.members.Standings(); len(s) != 2 {
			t.Errorf("no longer listed, still shown: %v", s)
		}
	})
}

// A service discovery that fails may list no host for a moment.
func TestAListThatBecomesEmptyChangesNothing(t *testing.T) {
	run(t, hosts("a", "b"), func(t *testing.T, w *watched) {
		w.see(t, "both are listed", "a b")
		if err := w.listed.Set(nil); err != nil {
			t.Error(err)
		}
		w.see(t, "none is listed", "a b")
		if !strings.Contains(w.log.String(), "no host is listed any more") {
			t.Errorf("logged %q", w.log.String())
		}
		w.network.set("refuses", "b")
		time.Sleep(2 * time.Second)
		w.see(t, "one is down", "a")
		if err := w.listed.Set(hosts("a", "c")); err != nil {
			t.Error(err)
		}
		w.see(t, "the next list", "a c")
	})
}

// told is a list that keeps what it is told.
type told struct {
	*hosted.Members

	mu   sync.Mutex // protects said
	said []string
}

func (l *told) Silent(address string, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.said = append(l.said, fmt.Sprint(address, " ", silent))
}

func TestAListIsToldWhoDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, err := hosted.New(hosts("a", "b")...)
		if err != nil {
			t.Fatal(err)
		}
		network := &network{states: make(map[string]string), times: make(map[string]int)}
		list := &told{Members: members}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- New(list, Config{Self: "a" + port, Ping: network.ping, Logger: slog.New(slog.DiscardHandler)}).Watch(ctx, func([]ringpop.Host) {})
		}()
		var last []string
		for _, state := range []string{"", "refuses", ""} {
			network.set(state, "b")
			time.Sleep(time.Minute)
			list.mu.Lock()
			last = append(last, list.said[len(list.said)-1])
			list.mu.Unlock()
		}
		if want := []string{"b:1 false", "b:1 true", "b:1 false"}; !slices.Equal(last, want) {
			t.Errorf("it was told %v, want %v", last, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

type broken struct{}

func (broken) Watch(context.Context, func([]ringpop.Host)) error { return errors.New("no list") }

func TestAListThatCannotBeWatchedIsAnError(t *testing.T) {
	m := New(broken{}, Config{Ping: new(network).ping})
	if err := m.Watch(t.Context(), func([]ringpop.Host) {}); err == nil || err.Error() != "no list" {
		t.Errorf("%v", err)
	}
	if s := m.Standings(); len(s) != 0 {
		t.Errorf("%v", s)
	}
}

// If another process has this host's address, it hears of this host. That a host does not
// reach itself, as behind some networks, changes nothing.
func TestAHostAsksItselfNowAndThen(t *testing.T) {
	run(t, hosts("a", "b"), func(t *testing.T, w *watched) {
		w.network.set("refuses", "a")
		time.Sleep(10*GreetEvery + time.Second)
		if n := w.network.asked("a"); n < 10 || n > 12 {
			t.Errorf("it asked itself %d times in ten minutes", n)
		}
		w.see(t, "it does not reach itself", "a b")
	})
}

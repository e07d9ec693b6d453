// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/limiter/client"
)

const (
	allSlots   = 20
	slotsLease = 3 * time.Second
	slotsRules = `
defaults: {update_interval: 200ms, lease: 3s, fallback: closed}
limits:
  - {key: "db:slots", limit: 20 in-flight}
`
	// holderEnv tells the test program to be a holder: of what limits, at which
	// edges, called what.
	holderEnv = "HEADGATE_TEST_HOLDER"
)

// TestHolderProcess is no test: it is what the processes of
// TestSlotsOfAKilledHolderComeBackWithItsLease run. It takes as many slots as
// it can, each for a moment, and prints what it does.
func TestHolderProcess(t *testing.T) {
	setup := strings.Fields(os.Getenv(holderEnv))
	if len(setup) != 3 {
		return
	}
	c, err := client.New(client.Config{Addresses: strings.Split(setup[1], ","), Host: setup[2], Hosts: 3},
		file.New(setup[0]), client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("\n"+format+"\n", args...)
	}
	for range allSlots {
		go func() {
			for {
				release, err := c.For("db:slots").Acquire(context.Background(), 1)
				if err != nil {
					time.Sleep(10 * time.Millisecond) // it is refused while there is no grant
					continue
				}
				// What is said begins after the slot was taken and ends before
				// it is given back: sums of it are never too high.
				say("+ %d", time.Now().UnixNano())
				time.Sleep(20*time.Millisecond + time.Duration(rand.Int64N(int64(100*time.Millisecond))))
				say("- %d", time.Now().UnixNano())
				release()
			}
		}()
	}
	for {
		now := time.Now().UnixNano()
		if s := share(c, "db:slots"); !s.Fallback {
			say("= %d %d %.0f", now, now+int64(s.Lease), s.Weight*allSlots)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// slotHolder is such a process.
type slotHolder struct {
	name string
	cmd  *exec.Cmd

	mu      sync.Mutex // protects following fields
	events  []slotEvent
	now     int // slots that it said it holds, at last
	granted int
	until   int64 // when its lease ends, in Unix nanoseconds
}

// slotEvent is a slot taken or given back.
type slotEvent struct {
	at    int64
	delta int
}

func hold(t *testing.T, name string, at *treeCluster) *slotHolder {
	t.Helper()
	h := &slotHolder{name: name, cmd: exec.Command(os.Args[0], "-test.run=^TestHolderProcess$")}
	h.cmd.Env = append(os.Environ(), holderEnv+"="+at.limits+" "+strings.Join(at.edges(), ",")+" "+name, "TMPDIR="+t.TempDir())
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.hear(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		<-read
		_ = h.cmd.Wait()
	})
	return h
}

func (h *slotHolder) hear(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	var at, until int64
	var granted int
	if n, _ := fmt.Sscanf(line, "= %d %d %d", &at, &until, &granted); n == 3 {
		h.granted, h.until = granted, until
		return
	}
	delta := 1
	if strings.HasPrefix(line, "-") {
		delta = -1
	}
	if n, _ := fmt.Sscanf(line[min(1, len(line)):], " %d", &at); n == 1 {
		h.events = append(h.events, slotEvent{at, delta})
		h.now += delta
	}
}

// lease is what h was granted last, and until when.
func (h *slotHolder) lease() (granted int, until int64) {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.granted, h.until
}

func granted(holders ...*slotHolder) (sum int) {
	for _, h := range holders {
		n, _ := h.lease()
		sum += n
	}
	return sum
}

// most is the most slots that holders held at once between two times, in Unix
// nanoseconds. A holder that was killed holds until then what it did.
func most(from, to int64, holders ...*slotHolder) (most int) {
	var all []slotEvent
	for _, h := range holders {
		h.mu.Lock()
		all = append(all, h.events...)
		h.mu.Unlock()
	}
	// What is given back at the same time as something is taken comes first.
	slices.SortFunc(all, func(a, b slotEvent) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	held := 0
	for i, e := range all {
		if e.at > from && (i == 0 || all[i-1].at <= from) {
			most = held
		}
		held += e.delta
		if e.at > from && e.at < to {
			most = max(most, held)
		}
	}
	return most
}

func TestSlotsOfAKilledHolderComeBackWithItsLease(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for leases to end")
	}
	t.Parallel()
	deciders := newTreeCluster(t, "alone", 1, slotsRules, nil)
	began := time.Now().UnixNano()
	a, b, c := hold(t, "a", deciders), hold(t, "b", deciders), hold(t, "c", deciders)
	fair := func(holders ...*slotHolder) func() bool {
		return func() bool {
			for _, h := range holders {
				if n, _ := h.lease(); n < allSlots/len(holders) {
					return false
				}
			}
			return granted(holders...) == allSlots
		}
	}
	eventually(t, "all slots are shared evenly", fair(a, b, c))

	// The owner dies: the next one learns what each holds.
	deciders.nodes[0].kill()
	deciders.nodes[0].start()
	watch(slotsLease)
	eventually(t, "all slots are shared evenly after the owner's death", fair(a, b, c))
	if got := most(began, time.Now().UnixNano(), a, b, c); got > allSlots {
		t.Errorf("%d slots were held at once, want at most %d", got, allSlots)
	} else {
		t.Logf("all three held %d slots at once, at most", got)
	}

	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	died := time.Now().UnixNano()
	eventually(t, "the others have all slots", fair(b, c))
	eventually(t, "the others hold all slots", func() bool { return most(died, time.Now().UnixNano(), b, c) == allSlots })
	lost, until := a.lease()
	before, all := most(died, until, b, c), most(until, time.Now().UnixNano(), b, c)
	t.Logf("%v before the dead one's lease ended, of the %d slots that were not its own, %d were held; later %d", time.Duration(until-died), allSlots-lost, before, all)
	if before > allSlots-lost {
		t.Errorf("the %d slots of the dead one were given away %v before its lease ended: others held %d", lost, time.Duration(until-died), before)
	}
	if all > allSlots {
		t.Errorf("%d slots were held at once, want at most %d", all, allSlots)
	}
}

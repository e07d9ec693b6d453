// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// oneOwner gives all keys to one host, which may change.
type oneOwner struct{ atomic.Pointer[string] }

func (o *oneOwner) Owner(string) string { return *o.Load() }

// exactCluster is hosts on a network in memory, each with an Aggregator and a
// Taker; a ring says who owns the one key.
type exactCluster struct {
	network *rpctest.Network
	names   []string
	takers  []*ask.Taker
	owner   oneOwner
}

func newExactCluster(t *testing.T, hosts int, limit rate.Limit, burst float64, faults rpctest.Faults) *exactCluster {
	t.Helper()
	c := &exactCluster{network: rpctest.New(1)}
	for i := range hosts {
		c.names = append(c.names, fmt.Sprint("host", i))
	}
	c.owner.Store(&c.names[0])
	for i, name := range c.names {
		a := bucketed(t, limit, burst)
		c.network.Host(name).Serve(a)
		taker := &ask.Taker{Host: name, Placement: &c.owner, Peers: c.network.Host(name).Peers(), Self: name, Local: a}
		t.Cleanup(taker.Close) // also of a host that crashes: it may still withdraw what was lost
		c.takers = append(c.takers, taker)
		for _, other := range c.names[:i] {
			c.network.SetFaults(name, other, faults)
			c.network.SetFaults(other, name, faults)
		}
	}
	return c
}

// ask has callers at every host ask for d, many more at the first ones, and
// returns what they got.
func (c *exactCluster) ask(t *testing.T, d time.Duration) (admitted float64) {
	t.Helper()
	var all atomic.Int64
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for host, taker := range c.takers {
		for caller := range 16 >> host {
			wg.Go(func() {
				chance := rand.New(rand.NewPCG(uint64(host), uint64(caller)))
				for time.Now().Before(end) {
					took, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1})
					if err == nil && took.OK {
						all.Add(1)
					}
					time.Sleep(time.Duration(chance.ExpFloat64() * float64(2*time.Millisecond)))
				}
			})
		}
	}
	wg.Wait()
	return float64(all.Load())
}

func TestOneBucketIsExactOverManyHosts(t *testing.T) {
	for _, row := range []struct {
		name   string
		limit  rate.Limit
		burst  float64
		faults rpctest.Faults
	}{
		{"near", 5000, 500, rpctest.Faults{Delay: 100 * time.Microsecond, Jitter: 100 * time.Microsecond}},
		{"slow", 7, 3, rpctest.Faults{Delay: 100 * time.Microsecond}},
		{"far", 2000, 200, rpctest.Faults{Delay: 5 * time.Millisecond, Jitter: time.Millisecond}},
		// A host that gets no answer has not used the tokens: they come back.
		{"lossy", 2000, 2000, rpctest.Faults{Delay: 100 * time.Microsecond, Drop: 0.01, Jitter: time.Millisecond}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newExactCluster(t, 5, row.limit, row.burst, row.faults)
				seconds := 10.0
				if !testrun.Long() && row.name != "far" { // of which much is under way at the end
					seconds = 2
				}
				if testing.Short() {
					seconds /= 2
				}
				got, want := c.ask(t, time.Duration(seconds)*time.Second), float64(row.limit)*seconds+row.burst
				t.Logf("admitted %.0f of %.0f: %+.4f%%", got, want, 100*(got/want-1))
				// Callers end with the time, and what is under way a moment later. The last token
				// may not be whole.
				if got > want*1.001+1 || got < want*0.999-1 {
					t.Errorf("admitted %.0f; want %.0f", got, want)
				}
			})
		})
	}
}

// Each crash of the owner costs one burst at most, whoever asks the next one
// first, and however often it happens.
func TestACrashOfTheOwnerCostsAtMostABurst(t *testing.T) {
	const limit, burst = 2000, 1000
	synctest.Test(t, func(t *testing.T) {
		c := newExactCluster(t, 5, limit, burst, rpctest.Faults{Delay: 100 * time.Microsecond})
		var got float64
		const crashes = 4
		between := time.Second
		if testing.Short() {
			between /= 4
		}
		began := time.Now()
		for i := range crashes + 1 {
			got += c.ask(t, between)
			if i == crashes {
				break
			}
			// The owner dies, with all that it knew and the callers there.
			c.network.Host(c.names[0]).Serve(nil)
			c.names, c.takers = c.names[1:], c.takers[1:]
			got += c.ask(t, 50*time.Millisecond) // the others do not know yet
			c.owner.Store(&c.names[0])
		}
		want := limit*time.Since(began).Seconds() + burst
		t.Logf("admitted %.0f: %.0f more than limit·t + burst, after %d crashes", got, got-want, crashes)
		if got > want+crashes*burst {
			t.Errorf("admitted %.0f, which is %.1f bursts more than %.0f", got, (got-want)/burst, want)
		}
		// All callers knew what was left, so that it should be far less.
		if got > want+burst {
			t.Errorf("admitted %.0f more than %.0f", got-want, want)
		}
	})
}

// Who asks the next owner first may know nothing, and find a full bucket. It is
// one burst, and when those come who know better it is owed.
func TestABurstTooManyIsOwed(t *testing.T) {
	const limit, burst = 1000, 1000
	synctest.Test(t, func(t *testing.T) {
		c := newExactCluster(t, 6, limit, burst, rpctest.Faults{Delay: 100 * time.Microsecond})
		stranger := c.takers[5] // whose callers come late
		c.takers = c.takers[:5]
		drain := func() (n float64) {
			for {
				took, err := stranger.Take(t.Context(), usage.Take{Key: "k", Tokens: 1})
				if err != nil || !took.OK {
					return n
				}
				n++
			}
		}
		known, afterwards := time.Second, 3*time.Second // in which the burst is paid back
		if testing.Short() {
			known, afterwards = known/4, afterwards/2
		}
		began := time.Now()
		got := c.ask(t, known)
		c.network.Host(c.names[0]).Serve(nil)
		c.names, c.takers = c.names[1:], c.takers[1:]
		c.owner.Store(&c.names[0])
		extra := drain()
		got += extra
		want := limit*time.Since(began).Seconds() + burst
		t.Logf("a stranger took %.0f, and then %.0f are admitted of %.0f", extra, got, want)
		if extra < burst || got > want+burst {
			t.Errorf("a stranger took %.0f, so that %.0f are admitted; that is %.0f and at most a burst", extra, got, want)
		}
		got += c.ask(t, afterwards)
		want = limit*time.Since(began).Seconds() + burst
		t.Logf("%.0f are admitted of %.0f in the end", got, want)
		if got > want*1.001 || got < want*0.99 {
			t.Errorf("%.0f are admitted; want %.0f", got, want)
		}
	})
}

// An answer that is lost costs nobody anything: the tokens are given back.
func TestTokensOfALostAnswerComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newExactCluster(t, 2, 1e-4, 100, rpctest.Faults{Delay: 100 * time.Microsecond})
		taker := c.takers[1]
		take := func(n float64) (usage.Took, error) { return taker.Take(t.Context(), usage.Take{Key: "k", Tokens: n}) }
		if _, err := take(10); err != nil {
			t.Fatal(err)
		}
		c.network.Cut("host0", "host1")
		if _, err := take(30); err == nil {
			t.Fatal("an answer over a cut link")
		}
		c.network.Heal("host0", "host1")
		if took, err := take(1); err != nil || math.Round(took.Left) != 89 {
			t.Errorf("%+v, %v", took, err)
		}
		// A request that is late finds that it was withdrawn.
		c.network.SetFaults("host1", "host0", rpctest.Faults{Delay: ask.DefaultTimeout - time.Microsecond})
		c.network.SetFaults("host0", "host1", rpctest.Faults{Delay: time.Millisecond})
		if _, err := take(50); err == nil {
			t.Fatal("in time")
		}
		c.network.SetFaults("host1", "host0", rpctest.Faults{})
		if took, err := take(1); err != nil || math.Round(took.Left) != 88 {
			t.Errorf("%+v, %v", took, err)
		}
	})
}

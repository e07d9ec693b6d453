// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// placement gives all keys to one host, which may change.
type placement struct{ atomic.Pointer[string] }

func (p *placement) Owner(string) string { return *p.Load() }

// The owner dies; for a second, nobody knows. The even fallback decides, and is
// charged for at the next owner. All in all there are two bursts at most: that
// of the start, and one for the crash. It happens three times.
func TestWhatAFallbackLetsThroughIsCharged(t *testing.T) {
	const limit, burst, hosts = 1000, 500, 6
	synctest.Test(t, func(t *testing.T) {
		snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(`
limits:
  - {key: "k", limit: 1000/s, burst: 500, algorithm: exact, fallback: even}
`))
		if err != nil {
			t.Fatal(err)
		}
		network, owner := rpctest.New(1), new(placement)
		var names []string
		var groups []*limiter.Group
		for i := range hosts {
			name := fmt.Sprint("host", i)
			a := aggregator.New(algorithm.Builtin(), snapshot)
			network.Host(name).Serve(a)
			for _, other := range names {
				network.SetFaults(name, other, rpctest.Faults{Delay: 100 * time.Microsecond})
				network.SetFaults(other, name, rpctest.Faults{Delay: 100 * time.Microsecond})
			}
			taker := &ask.Taker{Host: name, Placement: owner, Peers: network.Host(name).Peers(), Self: name, Local: a}
			defer taker.Close()
			group := limiter.NewGroup(snapshot, 0, limiter.WithRemote(algorithm.NameExact, exact.New(taker)))
			group.SetHosts(hosts)
			names, groups = append(names, name), append(groups, group)
		}
		owner.Store(&names[0])
		asking := func(d time.Duration) (admitted int64) {
			var all atomic.Int64
			end := time.Now().Add(d)
			var wg sync.WaitGroup
			for host, group := range groups {
				for caller := range 8 {
					wg.Go(func() {
						chance := rand.New(rand.NewPCG(uint64(host), uint64(caller)))
						for time.Now().Before(end) {
							if group.For("k").Decide(context.Background(), 1, 0).OK {
								all.Add(1)
							}
							time.Sleep(time.Duration(chance.ExpFloat64() * float64(10*time.Millisecond)))
						}
					})
				}
			}
			wg.Wait()
			return all.Load()
		}
		began := time.Now()
		got := asking(2 * time.Second)
		for crash := range 3 {
			network.Host(names[0]).Serve(nil)
			names, groups = names[1:], groups[1:]
			got += asking(time.Second)
			owner.Store(&names[0])
			got += asking(3 * time.Second)
			want := limit*time.Since(began).Seconds() + burst
			t.Logf("after %d crashes: %d admitted, %+.0f beside limit·t + burst", crash+1, got, float64(got)-want)
			if float64(got) > want+burst*float64(crash+1) {
				t.Errorf("%d admitted: more than a burst for each crash", got)
			}
			if float64(got) < 0.8*want {
				t.Errorf("%d admitted of %.0f", got, want)
			}
		}
		time.Sleep(time.Minute) // takes that nobody waited for are undone in the background
	})
}

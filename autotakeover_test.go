// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// lateCharges is a Remote of which charges are under way for longer than all else.
type lateCharges struct{ stage.Remote }

func (l lateCharges) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	if op.Kind == stage.ChargeTokens {
		select {
		case <-time.After(15 * time.Millisecond):
		case <-ctx.Done():
			return stage.Outcome{}, ctx.Err()
		}
	}
	return l.Remote.Do(ctx, op)
}

// An owner under auto that has known a host since before lends it tokens when it reports. A report that is sent while the
// owner is charged with what was used under another algorithm would be lent tokens that are used already.
func TestAnOwnerUnderAutoLendsNothingBeforeItIsCharged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const limit, burst = 30, 60
		rules := func(algorithm string) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "defaults: {update_interval: 500ms, lease: 5s}\nlimits: [{key: k, limit: %d/s, burst: %d, algorithm: %s}]", limit, burst, algorithm))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a := aggregator.New(algorithm.Builtin(), rules("auto"))
		network, owner, name := rpctest.New(1), placement{}, "host"
		owner.Store(&name)
		network.Host(name).Serve(a)
		peers := network.Host(name).Peers()
		taker := &ask.Taker{Host: name, Placement: &owner, Peers: peers, Self: name, Local: a}
		defer taker.Close()
		group := limiter.NewGroup(rules("auto"), 1, driver.WithSeed(1), limiter.WithRemote(algorithm.NameAuto, lateCharges{exact.NewAuto(taker)}))
		reports := &usage.Fanout{Host: name, Placement: &owner, Self: name, Local: a, Peers: peers}
		report := func() {
			for _, b := range driver.Of(group).Report(stage.Now()) {
				reports.Update(t.Context(), &b.Usage, time.Second, func(part usage.Part, grants *usage.Grants, err error) {
					if err == nil {
						err = driver.Of(group).Apply(stage.Now(), b, part.Rows, grants)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		configure := func(algorithm string) {
			if err := a.Configure(rules(algorithm)); err != nil {
				t.Fatal(err)
			}
			group.Configure(rules(algorithm))
		}
		k := group.For("k")
		for i := range 1000 { // the owner gets to know the host
			if k.Allow(); i%50 == 0 {
				report()
			}
			time.Sleep(10 * time.Millisecond)
		}
		configure("even")
		for range 6 {
			time.Sleep(500 * time.Millisecond)
			report()
		}
		began, passed := time.Now(), 0
		for range burst {
			if k.Allow() {
				passed++
			}
		}
		configure("auto")
		var first sync.WaitGroup
		first.Go(func() { // it waits for the charge
			if k.Allow() {
				t.Error("the burst is used")
			}
		})
		time.Sleep(5 * time.Millisecond)
		report()
		first.Wait()
		for time.Since(began) < 3*time.Second {
			if k.Allow() {
				passed++
			}
			if over := float64(passed) - burst - limit*time.Since(began).Seconds(); over > 1 {
				t.Fatalf("%v more than one bucket after %v", over, time.Since(began))
			}
			time.Sleep(time.Millisecond)
		}
		if passed < burst+2*limit {
			t.Errorf("%d pass, of %d", passed, burst+3*limit)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

func TestARemoteNeedNotBeComparable(t *testing.T) {
	asked := 0
	r := remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) {
		asked++
		return stage.Outcome{OK: true, Left: 9}, nil
	})
	under := func(algorithm string) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 10, Algorithm: algorithm})
	}
	g := NewGroup(under("own"), 1, WithRemote("own", r), WithRemote(Auto, r))
	for _, algorithm := range []string{"own", "own", Even, Auto, Auto, "own"} {
		g.Configure(under(algorithm))
		if asked = 0; !g.For("k").Allow() {
			t.Errorf("%s refuses", algorithm)
		}
		if asks := asked == 1; asks != (algorithm == "own") {
			t.Errorf("%s asks: %v", algorithm, asks)
		}
	}
}

func TestAShorterIntervalIsInForceAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		every := func(interval time.Duration) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{
				Properties: dynamicconfig.Properties{UpdateInterval: interval}, Rules: []dynamicconfig.Rule{weighted(10)},
			}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		var reports atomic.Int64
		g := NewGroup(every(time.Hour), 1)
		g.For("k").Allow()
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() {
			g.Run(ctx, updater(func(context.Context, *rpc.Usage, func(rpc.Part, *rpc.Grants, error)) { reports.Add(1) }))
		})
		time.Sleep(time.Hour + time.Second) // the first report is past
		reports.Store(0)
		g.Configure(every(time.Second))
		time.Sleep(10*time.Second + time.Millisecond)
		cancel()
		running.Wait()
		if n := reports.Load(); n != 10 {
			t.Errorf("%d reports in 10 s, want one a second", n)
		}
	})
}

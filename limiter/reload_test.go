// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func TestARemoteNeedNotBeComparable(t *testing.T) {
	asked := 0
	r := remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) { asked++; return stage.Outcome{OK: true, Left: 9}, nil })
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

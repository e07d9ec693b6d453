// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// Under `fallback: closed`, the first grant of a key begins without tokens, so its first events make a debt. The
// remote bucket that takes over is charged with them, and not with a burst that nobody has used.
func TestADebtUnderAGrantThatBeganWithNothingIsChargedAlone(t *testing.T) {
	for _, algorithm := range []string{"request-weighted", "elastic"} {
		for _, charged := range []int{0, 1, 3} {
			synctest.Test(t, func(t *testing.T) {
				limits := func(algorithm string) string {
					return fmt.Sprintf("limits: [{key: k, limit: 10/s, burst: 10, algorithm: %s, fallback: closed}]", algorithm)
				}
				remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
				g := limiter.NewGroup(traceLimits(t, limits(algorithm)), 1, limiter.WithRemote("redis", remote), driver.WithBackground(remote.background))
				d := driver.Of(g)
				g.For("k").SetDemand(5)
				time.Sleep(time.Millisecond)
				for _, b := range d.Report(stage.Now()) {
					if err := d.Apply(stage.Now(), b, nil, grantOf(b.Usage.Len(), 0.5, 5, 10*time.Second)); err != nil {
						t.Fatal(err)
					}
				}
				g.For("k").Charge(charged)
				g.Configure(traceLimits(t, limits("redis")))
				synctest.Wait()
				if got := remote.bucket("k").net; got != float64(charged) {
					t.Errorf("%s: the bucket in Redis is charged with %v tokens, and %d were used", algorithm, got, charged)
				}
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// docs/leases.md: a lease never ends later at the host than at its owner, also if that is
// between two reports.
func TestALeaseEndsBetweenReports(t *testing.T) {
	events := dynamicconfig.Rule{Key: "k", Limit: 1000, Algorithm: "fair-share", Fallback: dynamicconfig.FallbackClosed}
	slots := events
	slots.InFlight = true
	for name, tt := range map[string]struct {
		rule  dynamicconfig.Rule
		lease time.Duration // update_interval is 1 s
	}{
		"events":                           {events, 2500 * time.Millisecond},
		"slots":                            {slots, 2500 * time.Millisecond},
		"events, with the rest of a lease": {events, 300 * time.Millisecond},
		"slots, with the rest of a lease":  {slots, 300 * time.Millisecond},
	} {
		bubble(t, func(t *testing.T) {
			g := NewGroup(snapshot(t, tt.rule), 1)
			k := g.For("k")
			k.SetDemand(1000)
			var reported atomic.Pointer[time.Time] // when the report was made that was answered
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go g.Run(ctx, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
				if now := time.Now(); reported.CompareAndSwap(nil, &now) {
					done(usage.Part{Owner: "owner"}, grantOf(1, 1000, tt.lease), nil)
					return
				}
				done(usage.Part{Owner: "owner"}, nil, errors.New("no answer"))
			}))
			granted := false
			for range 600 {
				time.Sleep(10 * time.Millisecond)
				release, ok := k.TryAcquire(1)
				granted = granted || ok
				if at := reported.Load(); at != nil && ok && time.Since(*at) > tt.lease {
					t.Errorf("%s: allowed %v after the report whose lease is %v", name, time.Since(*at), tt.lease)
					break
				}
				release()
			}
			if !granted {
				t.Errorf("%s: never allowed", name)
			}
		})
	}
}

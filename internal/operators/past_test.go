// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/bubble"
)

// A member that follows a change late does not count what it rejected before as rejected under the
// change.
func TestWhatTheLimitsBeforeRejectedIsNotAmongWhatThoseAfterRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		nodes, _ := bubble.Start(t, 1, `limits: [{key: k, limit: 1/s, burst: 1, algorithm: even}]`, headgate.WithAnswers(d.Answers()))
		d.Open(nodes[0], nodes[0].Address(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); d.Run(ctx) }()
		defer func() { cancel(); <-done }()

		began := time.Now()
		use := func() { // 100 events, 10 a second
			for range 100 {
				nodes[0].For("k").Allow()
				time.Sleep(time.Second / 10)
			}
		}
		under := func(limits string) (offered, rejected float64) {
			hosts, silent := past{d}.Series(t.Context(), lasthour.Wanted{Key: "k", Since: began, Limits: limits})
			if len(silent) > 0 {
				t.Errorf("%v are silent", silent)
			}
			for _, points := range hosts {
				for _, p := range points {
					offered, rejected = offered+p.Allowed+p.Reject, rejected+p.Reject
				}
			}
			return offered, rejected
		}
		use()
		if offered, rejected := under(""); offered < 70 || rejected < 60 {
			t.Errorf("before the change, %.0f were offered, and %.0f rejected", offered, rejected)
		}
		if offered, _ := under("version 2"); offered != 0 {
			t.Errorf("before the change, %.0f were offered under limits that are not in force", offered)
		}
		s, err := dynamicconfig.Parse("version 2", []byte(`limits: [{key: k, limit: 1000/s, burst: 1000, algorithm: even}]`))
		if err != nil {
			t.Fatal(err)
		}
		if err := nodes[0].Limits().Set(s); err != nil {
			t.Fatal(err)
		}
		use()
		if offered, rejected := under("version 2"); offered < 50 || offered > 90 || rejected != 0 {
			t.Errorf("after it, %.0f were offered, and %.0f rejected", offered, rejected)
		}
		if _, rejected := under(""); rejected < 60 {
			t.Errorf("under any limits, %.0f were rejected", rejected)
		}
	})
}

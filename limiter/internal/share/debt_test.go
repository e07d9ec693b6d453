// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// deaf is an Observer that does nothing.
type deaf struct{}

func (deaf) RanLow(stage.Instant, bool)                 {}
func (deaf) Demand(stage.Instant) (wants, unit float64) { return 0, 1 }
func (deaf) Settled() (number uint32, ok bool)          { return 0, true }
func (deaf) Successor() *Rate                           { return nil }

// takeAhead takes n pairs of tokens, of those that are to come, too.
func takeAhead(r *Rate, now stage.Instant, n int) {
	for range n {
		r.Take(context.Background(), stage.Request{Now: now, N: 2, Longest: time.Minute})
	}
}

// A debt that did not go along at a switch of levels, because the other level has a deeper one of
// its own, is kept until it is paid: a key that idles meanwhile would forget it.
func TestADebtThatDoesNotGoAlongRests(t *testing.T) {
	const now = stage.Instant(time.Hour)
	rule := &dynamicconfig.Rule{Key: "k", Limit: 100, Burst: 20, Fallback: dynamicconfig.FallbackEven}
	r := NewRate(now, "k", &Terms{Rule: rule, Algorithm: "elastic", Reports: true}, 10, math.Inf(1), 1)
	r.Observer = deaf{}
	grant := func(lease time.Duration) {
		r.SetGrant(Grant{Given: true, Weight: 1, Burst: 20, Until: now.Add(lease)})
		r.Steer(now, 10)
	}
	grant(time.Minute)
	takeAhead(r, now, 40) // 60 of them are a debt of the grant
	grant(0)
	debt := r.Tokens(now)
	takeAhead(r, now, 22)
	owes := r.Tokens(now)
	if owes > debt-43 {
		t.Fatalf("the fallback has %v tokens, and had %v", owes, debt)
	}
	for range 3 {
		grant(time.Minute)
		if inactive := r.Inactive(now).Tokens; math.Abs(inactive-owes) > 1e-6 {
			t.Errorf("under a grant, the fallback keeps %v tokens, and had %v", inactive, owes)
		}
		grant(0)
		if tokens := r.Tokens(now); math.Abs(tokens-owes) > 1e-6 {
			t.Errorf("without one, the fallback has %v tokens again, and had %v", tokens, owes)
		}
	}
	if later := now.Add(4 * time.Second); r.Idle(later) {
		t.Error("the key is idle after 4 s, and what callers wait for comes in 5 s")
	}
}

// A level that limits nothing does not fill the bucket of the next grant, which does.
func TestAGrantThatRefusesByChanceFillsNoBucket(t *testing.T) {
	const now = stage.Instant(time.Hour)
	rule := &dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackEven}
	r := NewRate(now, "k", &Terms{Rule: rule, Algorithm: "mine", Reports: true}, 1, math.Inf(1), 1)
	r.Observer = deaf{}
	grant := func(now stage.Instant, floor usage.Floor, lease time.Duration) {
		r.SetGrant(Grant{Given: true, Floor: floor, Weight: 1, Burst: 20, Until: now.Add(lease)})
		r.Steer(now, 1)
	}
	takeAhead(r, now, 10)
	grant(now, usage.FloorNone, time.Minute)
	grant(now, usage.FloorDrop, 0)
	grant(now+1, usage.FloorNone, time.Minute)
	if tokens := r.Tokens(now + 1); tokens > 1e-6 {
		t.Errorf("%v tokens are left of 20 that were used", tokens)
	}
}

// A level that limits nothing keeps a number of tokens, however often it is looked at in
// one instant.
func TestAnOpenFallbackRestsWithANumberOfTokens(t *testing.T) {
	const now = stage.Instant(time.Hour)
	rule := &dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackOpen}
	terms := &Terms{Rule: rule, Algorithm: "elastic", Reports: true}
	r := NewRate(now, "k", terms, 1, math.Inf(1), 1)
	r.Observer = deaf{}
	for _, floor := range []usage.Floor{usage.FloorNone, usage.FloorDrop} {
		for _, lease := range []time.Duration{time.Minute, 0} {
			r.SetGrant(Grant{Given: true, Floor: floor, Weight: 1, Burst: 20, Until: now.Add(lease)})
			r.Lend(now, 5, 1)
			r.SetTerms(now, terms) // as at a reload
			r.Steer(now, 1)
			if inactive := r.Inactive(now); math.IsNaN(inactive.Tokens) {
				t.Errorf("floor %v, lease %v: %+v inactive", floor, lease, inactive)
			}
			r.Unused(now)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// Of little demand that is not known yet, e^(-1/3) is left after a second. Of
// much demand, a mean over less time is as certain.
func TestWantsAreAMovingAverage(t *testing.T) {
	for rate, means := range map[int][]float64{
		20:   {5.7, 9.7, 12.6},
		100:  {39, 63, 78},
		5000: {5000, 5000, 5000},
	} {
		h := newHost(t, 1e4, dynamicconfig.Traits{Wants: true}, 1)
		s := h.use(0, "k", 0)
		for i, want := range means {
			take(s, stage.Instant(i)*second, rate)
			now := stage.Instant(i+1) * second
			said := h.report(now)
			got := said[0].Usage.Wants[0]
			g := grants(1, 1, 1e4)
			if g.Tokens = nil; h.Apply(now, said[0], nil, g, 1) != nil || math.Abs(got-want) > 0.01*float64(rate) {
				t.Errorf("after %d s of %d/s: %v, want %v", i+1, rate, got, want)
			}
		}
	}
}

// A report to an owner that leases says what the largest event cost lately, so that the host's part lets one pass.
func TestAHostThatLeasesSaysWhatItsEventsCost(t *testing.T) {
	h := newHost(t, 1e4, dynamicconfig.Traits{Wants: true}, 1)
	s := h.use(0, "k", 1)
	if said := h.report(second); said[0].Usage.Cost != nil {
		t.Errorf("events of cost 1: %v, want nothing", said[0].Usage.Cost)
	}
	s.Rate.Take(t.Context(), stage.Request{Now: second, N: 50})
	for i, want := range []float64{50, 40, 32} {
		if said := h.report(stage.Instant(i+2) * second); len(said[0].Usage.Cost) != 1 || math.Abs(said[0].Usage.Cost[0]-want) > 1e-9 {
			t.Errorf("after %d s: %v, want %v", i+1, said[0].Usage.Cost, want)
		}
	}
}

// An event is rejected while the owner is asked for it, and allowed when no answer comes. What was reported as rejected
// meanwhile is not reported again.
func TestAnEventThatIsAllowedLaterIsReportedAsRejectedOnce(t *testing.T) {
	h := newHost(t, 1e4, dynamicconfig.Traits{Early: true}, 1)
	s := h.use(0, "k", 1)
	for i, step := range []struct{ allowed, rejected, saysAllowed, saysRejected int64 }{
		{0, 1, 1, 1}, {1, -1, 1, 0}, {0, 3, 0, 2}, {0, 1, 0, 1},
	} {
		s.Rate.Bucket().Record(step.allowed, true)
		s.Rate.Bucket().Record(step.rejected, false)
		now := stage.Instant(i+1) * second
		said := h.report(now)
		if u := said[0].Usage; u.Allowed[0] != step.saysAllowed || u.Rejected[0] != step.saysRejected {
			t.Errorf("after %d s: %d allowed and %d rejected, want %d and %d", i+1, u.Allowed[0], u.Rejected[0], step.saysAllowed, step.saysRejected)
		}
		if err := h.Apply(now, said[0], nil, grants(1, 1, 1e4), 1); err != nil {
			t.Fatal(err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// waiting is a host with a grant of its key, whose tokens are used up, and callers that wait for so many more.
func waiting(t *testing.T, callers int) (*host, *Subject) {
	t.Helper()
	h := newHost(t, 10, reportsEarly, 1)
	s := h.use(second, "k", 1)
	if len(h.granted(2*second, h.report(2*second), 1, 10)) != 1 {
		t.Fatal("no grant")
	}
	for range 10 + callers {
		if v, _ := s.Rate.Take(t.Context(), stage.Request{Now: 3 * second, N: 1, Longest: time.Hour}); !v.OK() {
			t.Fatalf("got %+v", v)
		}
	}
	return h, s
}

// Tokens for which callers wait are reported when they have filled in, once, and the grant leaves the debt to the
// host: the owner would forget what is deeper than charges can make.
func TestWhatCallersWaitForIsReportedWhenItHasFilledIn(t *testing.T) {
	h, s := waiting(t, 30)
	for i := range 4 {
		now := 3*second + stage.Instant(i)*second
		if said := h.granted(now, h.report(now), 1, 0); len(said) != 1 || said[0].Allowed[0] != 10 {
			t.Fatalf("report %d says %+v, want 10 allowed", i, said)
		}
		if left, want := s.Part().Tokens(now), float64(10*i-30); left < want-0.1 || left > want+0.1 {
			t.Errorf("after report %d there are %v tokens, want %v", i, left, want)
		}
	}
	if n := s.Unreported(6 * second); n != 0 {
		t.Errorf("%d are left to report", n)
	}
}

// A charge is reported at once, while callers wait too: how much of it is forgotten is the owner's to say.
func TestAChargeIsReportedAtOnceWhileCallersWait(t *testing.T) {
	h, s := waiting(t, 5)
	s.Rate.Take(t.Context(), stage.Request{Now: 3 * second, N: 4, Kind: stage.Charge})
	if said := h.granted(3*second, h.report(3*second), 1, 0); len(said) != 1 || said[0].Allowed[0] != 10+4 {
		t.Errorf("got %+v, want 14 allowed", said)
	}
}

// The last report of a host, or of a key that ends, has all: no other one comes.
func TestTheLastReportHasWhatCallersWaitFor(t *testing.T) {
	h, s := waiting(t, 30)
	if batches := h.Last(3*second, 1, []*Subject{s}); len(batches) != 1 || batches[0].Usage.Allowed[0] != 40 {
		t.Errorf("a host that leaves: got %+v", batches)
	}
	h, s = waiting(t, 30)
	h.retire(s)
	if batches := h.report(4 * second); len(batches) != 1 || batches[0].Usage.Allowed[0] != 40 {
		t.Errorf("a key that ends: got %+v", batches)
	}
}

// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/background"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// host is a Hub that runs what is in the background at once, unless it is full, and what was heard of it.
type host struct {
	*Hub
	scope tally.TestScope
	log   strings.Builder
	heard
}

// heard is how often a call had no answer, a key entered its fallback and left it, and a Remote panicked.
type heard struct{ failed, entered, left, panicked int }

func newHost() *host {
	h := &host{scope: tally.NewTestScope("", nil)}
	h.Hub = NewHub(HubConfig{
		Log:        slog.New(slog.NewTextHandler(&h.log, nil)),
		Background: func(f func()) { f() },
		Failures:   h.scope.Counter("failures"),
		Skipped:    tally.NoopScope.Counter(""),
		FallbackChanged: func(_ stage.Instant, _ *share.Base, entered bool) {
			if entered {
				h.entered++
			} else {
				h.left++
			}
		},
		RateRule: func(string) *dynamicconfig.Rule { return nil },
		Asking:   func(string, string) *Stage { return nil },
	})
	return h
}

// fill has nothing more run in the background, or everything.
func (h *host) fill(full bool) {
	if h.config.Background = nil; !full {
		h.config.Background = func(f func()) { f() }
	}
	h.running = background.New(0, h.config.Log)
}

// hears is what was heard so far.
func (h *host) hears() heard {
	if c := h.scope.Snapshot().Counters()["failures+"]; c != nil {
		h.failed = int(c.Value())
	}
	h.panicked = strings.Count(h.log.String(), "a remote bucket panicked")
	return h.heard
}

// store is a Remote that carries out an Operation once, as the contract says,
// and may lose its answers.
type store struct {
	taken, settled float64 // by takes, and by charges and returns
	seen           map[uint64]bool
	err            error // instead of an answer
	lost           bool  // the operation is carried out before the error
	answer         *stage.Outcome
	panics         bool
	sent           int
}

func (s *store) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	if s.panics {
		panic("a defect")
	}
	if s.sent++; s.err == nil || s.lost {
		switch {
		case op.Kind == stage.TakeTokens:
			s.taken += op.N
		case s.seen[op.ID]:
		case op.Kind == stage.ChargeTokens:
			s.settled += op.N
		case op.Kind == stage.ReturnTokens:
			s.settled -= op.N
		}
		if s.seen == nil {
			s.seen = make(map[uint64]bool)
		}
		s.seen[op.ID] = op.Kind != stage.TakeTokens
	}
	if s.err != nil {
		return stage.Outcome{}, s.err
	}
	if s.answer != nil {
		return *s.answer, nil
	}
	return stage.Outcome{OK: true, Left: 5}, nil
}

func newStage(t *testing.T, s *store, h *Hub) *Stage {
	t.Helper()
	config, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "k", Limit: 10, Burst: 10, Algorithm: "exact"}}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	rule, _ := config.Match("k")
	terms := &share.Terms{Rule: rule, Algorithm: "exact"}
	return New(share.NewRate(0, "k", terms, 2, rule.Burst, 0), &Link{s, terms.Algorithm, h, nil})
}

func request(n int64) stage.Request { return stage.Request{N: n} }

var errAway = errors.New("away")

// A fallback does not pay for what the remote would have refused, when one answer is lost: it has what the remote had.
// Then it fills as its own part of the limit does.
func TestAFallbackBeginsWithNoMoreThanTheRemoteHad(t *testing.T) {
	for _, left := range []float64{-5, 0.5, 3.5, 9} {
		s, h := &store{answer: &stage.Outcome{OK: true, Left: left}}, newHost()
		r := newStage(t, s, h.Hub)
		pass := func(now stage.Instant) (n int) {
			for range 10 {
				if v, _ := r.Take(t.Context(), stage.Request{Now: now, N: 1}); v.OK() {
					n++
				}
			}
			return n
		}
		r.Take(t.Context(), request(1))
		s.err = errAway
		want := int(min(max(left, 0), 5)) // 5 is the half of one of two hosts
		if got, later := pass(0), pass(stage.Instant(time.Second)); got != want || later != 5 {
			t.Errorf("the remote had %v: the fallback lets %d through at once, want %d, and %d after a second, want 5", left, got, want, later)
		}
	}
}

// Defect 6.
func TestAReturnWhoseAnswerIsLostIsCarriedOutOnce(t *testing.T) {
	s, h := new(store), newHost()
	r := newStage(t, s, h.Hub)
	_, receipt := r.Take(t.Context(), request(7))
	s.err, s.lost = errAway, true
	r.Settle(0, receipt, 0)
	for range 3 {
		r.Flush(0)
	}
	s.err = nil
	_, again := r.Take(t.Context(), request(2))
	r.Settle(0, again, 0)
	if s.settled != -9 || s.sent < 6 {
		t.Errorf("%v are given back of 7 and 2, with %d operations", -s.settled, s.sent)
	}
}

func TestTheEstimateKeepsWhatHasComeInBeforeAChangeOfRule(t *testing.T) {
	for _, test := range []struct {
		name         string
		asked        bool
		limit, burst float64 // of the rule that follows
		want         float64
	}{
		{"a higher limit", true, 20, 10, 7},
		{"a lower limit", true, 1, 10, 7},
		{"none comes in any more", true, 0, 10, 7},
		{"a smaller burst", true, 10, 6, 6},
		{"the same rule", true, 10, 10, 7},
		{"nothing is known yet", false, 20, 20, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newStage(t, new(store), newHost().Hub) // 10 events/s, and 5 tokens are left
			if test.asked {
				r.Take(t.Context(), request(1))
			}
			terms := *r.Terms()
			rule := *terms.Rule
			rule.Limit, rule.Burst = rate.Limit(test.limit), test.burst
			terms.Rule = &rule
			now := stage.Instant(200 * time.Millisecond)
			r.SetTerms(now, &terms)
			if got := r.Level(now).Tokens; math.Abs(got-test.want) > 1e-9 {
				t.Errorf("%v tokens, want %v", got, test.want)
			}
		})
	}
}

func TestWhatIsOwedIsSentOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s, h := new(store), newHost()
		r := newStage(t, s, h.Hub)
		want := 0.0
		for range 30 {
			s.err, s.lost = nil, random.IntN(2) == 0
			h.fill(random.IntN(4) == 0)
			if random.IntN(3) == 0 {
				s.err = errAway
			}
			n, actual := random.Int64N(4), random.Int64N(5)
			before := s.taken
			v, receipt := r.Take(t.Context(), request(n))
			if !v.OK() {
				continue
			}
			r.Settle(0, receipt, actual)
			if n == 0 {
				actual = 0 // there is no receipt
			}
			want += float64(actual) - (s.taken - before)
			if _, own := receipt.Rest.(fromFallback); own { // the remote may have taken too
				want += s.taken - before
			}
		}
		s.err = nil
		h.fill(false)
		r.Flush(0)
		if s.settled != want || !r.outbox.Empty() {
			t.Fatalf("the remote bucket was reported of %v, want %v", s.settled, want)
		}
	}
}

func TestARemoteIsToldApart(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		store      store
		ctx        context.Context
		want       stage.Reason
		by         stage.Source
		heard      heard
		inFallback bool
	}{
		"answered":     {store{}, t.Context(), stage.Granted, stage.ByAlgorithm, heard{}, false},
		"refused":      {store{answer: &stage.Outcome{}}, t.Context(), stage.Limited, stage.ByAlgorithm, heard{}, false},
		"not answered": {store{err: errAway}, t.Context(), stage.Granted, stage.ByFallback, heard{failed: 1, entered: 1}, true},
		"busy here":    {store{err: stage.ErrBusy}, t.Context(), stage.Granted, stage.ByFallback, heard{failed: 1}, false},
		"caller gone":  {store{err: errAway}, gone, stage.Canceled, stage.ByAlgorithm, heard{}, false},
		"nonsense":     {store{answer: &stage.Outcome{Wait: -1}}, t.Context(), stage.Granted, stage.ByFallback, heard{failed: 1, entered: 1}, true}, // of this key only
		"panic":        {store{panics: true}, t.Context(), stage.Granted, stage.ByFallback, heard{failed: 1, entered: 1, panicked: 1}, true},
	} {
		h := newHost()
		r := newStage(t, &tt.store, h.Hub)
		v, _ := r.Take(tt.ctx, request(2))
		if v.Reason != tt.want || v.By != tt.by || h.hears() != tt.heard || inFallback(r) != tt.inFallback {
			t.Errorf("%s: %+v, the host heard %+v, inFallback %v", name, v, h.heard, inFallback(r))
		}
	}
}

// A charge that was sent in the background got an answer that makes no sense, as the event
// before it did: the key uses its fallback still.
func TestNonsenseEndsNoFallback(t *testing.T) {
	s, h := &store{answer: &stage.Outcome{Wait: -1}}, newHost()
	r := newStage(t, s, h.Hub)
	r.Take(t.Context(), request(2))
	r.Flush(0)
	if !inFallback(r) || h.left != 0 {
		t.Errorf("inFallback %v, and the key left it %d times", inFallback(r), h.left)
	}
	if r.HasUnsent() {
		t.Error("a charge whose answer makes no sense is sent again")
	}
}

// The remote is charged with what the fallback let through. So the host takes that for its own use, and not for another host's, and
// expects the remote to lack it.
func TestTheFallbackUsesTokensOfTheRemote(t *testing.T) {
	for _, actual := range []int64{0, 1, 2} {
		s, h := &store{answer: &stage.Outcome{OK: true, Left: 7}}, newHost()
		r := newStage(t, s, h.Hub)
		r.Take(t.Context(), request(3))
		s.err = errAway
		_, receipt := r.Take(t.Context(), request(2))
		r.Settle(0, receipt, actual)
		left := float64(7 - actual)
		if got := r.Elsewhere(0).Tokens; got != left {
			t.Errorf("the remote is thought to have %v tokens, want %v", got, left)
		}
		s.err, s.answer = nil, &stage.Outcome{OK: true, Left: left - 1}
		if r.Take(t.Context(), request(1)); OwnUse(r) != 1 {
			t.Errorf("the host takes %v of what the remote lacks for its own use, want all", OwnUse(r))
		}
	}
}

func TestAReceiptIsSettledWhereItCameFrom(t *testing.T) {
	s, h := &store{err: errAway}, newHost()
	r := newStage(t, s, h.Hub)
	_, receipt := r.Take(t.Context(), request(4)) // of the five of the fallback
	r.Settle(0, receipt, 1)
	if got := r.Bucket().Tokens(0); got < 4-1e-6 || got > 4 {
		t.Errorf("the fallback has %v tokens, want 5 - 1", got)
	}
	s.err = nil
	r.Take(t.Context(), stage.Request{Kind: stage.Final})
	if s.settled != 1 || h.left != 1 {
		t.Errorf("the remote bucket was charged with %v, want 1", s.settled)
	}
	if usage := r.Count(0); usage.Allowed != 1 || usage.Rejected != 0 {
		t.Errorf("counted %+v", usage)
	}
}

// A caller that would not wait is not reported to.
func TestAWaitThatIsLongerThanAskedIsNonsense(t *testing.T) {
	for _, tt := range []struct {
		wait, longest time.Duration
		nonsense      bool
	}{
		{time.Second, 0, true},
		{time.Second + 2*time.Millisecond, time.Second, true},
		{time.Second + time.Millisecond, time.Second, false},
		{time.Second, time.Second, false},
	} {
		s, h := &store{answer: &stage.Outcome{OK: true, Wait: tt.wait}}, newHost()
		r := newStage(t, s, h.Hub)
		v, _ := r.Take(t.Context(), stage.Request{N: 3, Longest: tt.longest})
		if v.Wait > tt.longest+time.Millisecond || tt.nonsense != (s.settled == -3) || tt.nonsense != (h.entered == 1) {
			t.Errorf("a wait of %v for %v at most: %+v, given back %v", tt.wait, tt.longest, v, -s.settled)
		}
	}
}

func TestAChargeOfARemoteThatFails(t *testing.T) {
	s, h := &store{err: errAway}, newHost()
	r := newStage(t, s, h.Hub)
	r.Take(t.Context(), request(0))
	v, _ := r.Take(t.Context(), stage.Request{N: 2, Kind: stage.Charge})
	if left := r.Level(0).Tokens; v.Left != left || left < 3-1e-6 || left > 3 {
		t.Errorf("%v are left, and then %v, want 5 - 2", v.Left, left)
	}
	terms := *r.Terms()
	fast := *terms.Rule
	fast.Limit = 1e10 // enough for the largest cost that counts in minutes
	terms.Rule = &fast
	r.SetTerms(0, &terms)
	r.Steer(0, 2)
	r.Take(t.Context(), stage.Request{N: math.MaxInt64, Kind: stage.Charge})
	if left := r.Level(0).Tokens; left < -1.1e12 {
		t.Errorf("a charge leaves %v tokens, want -2⁴⁰ or so", left)
	}
}

// inFallback reports whether p uses its fallback.
func inFallback(p share.Part) bool {
	_, ok := p.InFallback()
	return ok
}

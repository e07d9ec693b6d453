// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

const second = stage.Instant(time.Second)

// reportsEarly are the Traits of most algorithms of these tests.
var reportsEarly = dynamicconfig.Traits{Early: true}

// host is a Reporter and its Subjects, under an interval of one second.
type host struct {
	*Reporter
	t     testing.TB
	terms *share.Terms
	hosts int
	live  []*Subject
}

// newHost returns one of so many hosts whose keys share limit events/s each.
func newHost(t testing.TB, limit rate.Limit, traits dynamicconfig.Traits, hosts int) *host {
	h := &host{t: t, hosts: hosts, terms: &share.Terms{
		Rule:      &dynamicconfig.Rule{Key: "k", Limit: limit, Burst: float64(limit), Fallback: dynamicconfig.FallbackEven},
		Algorithm: "lending", Traits: traits, Reports: true,
	}}
	interval := func() time.Duration { return time.Second }
	h.Reporter = New(Config{
		Interval: interval, Timeout: func() time.Duration { return time.Second / 2 },
		FallbackChanged: func(stage.Instant, *share.Base, bool) {}, Successor: h.successor, Rand: rand.New(rand.NewPCG(1, 1)),
	})
	return h
}

// use begins a key, and takes n single tokens of it.
func (h *host) use(now stage.Instant, key string, n int) *Subject {
	s := h.NewSubject(now, share.NewRate(now, key, h.terms, h.hosts, math.Inf(1), 0))
	s.Begin(now)
	h.live = append(h.live, s)
	take(s, now, n)
	return s
}

// take asks for n single tokens, and returns how many it got.
func take(s *Subject, now stage.Instant, n int) (got int) {
	for range n {
		if s.Rate.TakeOne(now) {
			got++
		}
	}
	return got
}

// retire ends s.
func (h *host) retire(s *Subject) {
	s.Retire(stage.Now())
	h.live = slices.DeleteFunc(h.live, func(l *Subject) bool { return l == s })
}

func (h *host) successor(key, _ string) *Subject {
	if i := slices.IndexFunc(h.live, func(s *Subject) bool { return s.Part().Common().Key() == key }); i >= 0 {
		return h.live[i]
	}
	return nil
}

// report makes a regular report.
func (h *host) report(now stage.Instant) []*Batch {
	round := h.Begin(now, 1)
	for _, s := range h.live {
		round.Visit(s, h.hosts)
	}
	return round.Batches()
}

// urgent makes an early report, if it is time for one.
func (h *host) urgent(now stage.Instant) []*Batch {
	if now < h.Due() {
		return nil
	}
	return h.Early(now, 1)
}

// granted answers batches, so that each key gets so much, and returns what they said.
func (h *host) granted(now stage.Instant, batches []*Batch, weight, tokens float64) (said []usage.Report) {
	h.t.Helper()
	for _, b := range batches {
		if err := b.Usage.Check(); err != nil {
			h.t.Fatal(err)
		}
		said = append(said, b.Usage)
		if err := h.Apply(now, b, nil, grants(b.Usage.Len(), weight, tokens), h.hosts); err != nil {
			h.t.Fatal(err)
		}
	}
	return said
}

// grants are n equal ones.
func grants(n int, weight, tokens float64) *usage.Grants {
	return &usage.Grants{
		Weight: slices.Repeat([]float64{weight}, n), Burst: slices.Repeat([]float64{tokens + 10}, n), Used: make([]float64, n),
		Lease: slices.Repeat([]time.Duration{time.Minute}, n), Tokens: slices.Repeat([]float64{tokens}, n),
	}
}

// tokens are what s has.
func tokens(s *Subject, now stage.Instant) float64 { return s.Part().Tokens(now) }

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

// inFallback reports whether p uses its fallback.
func inFallback(p share.Part) bool {
	_, ok := p.InFallback()
	return ok
}

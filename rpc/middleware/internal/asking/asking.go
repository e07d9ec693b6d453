// SPDX-License-Identifier: Apache-2.0

// Package asking is what the middleware of all protocols has in common: it
// makes a key of a request, asks for its tokens, waits for them, and counts
// what became of it.
//
// Out of scope: what a protocol says of a request, and to who sent it.
package asking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/keys"
)

// Setup is what a package's Options say to an Asker.
type Setup struct {
	// Name is the package's, which metrics and errors begin with, and Counter
	// the metric's, by reason.
	Name, Counter string

	// Key is the template of a request's key; required.
	Key string

	// MaxWait is the longest that a request waits for its turn; 0: not at all.
	MaxWait time.Duration

	// Random returns numbers in [0, 1) that spread when to come again; default
	// rand.Float64.
	Random func() float64

	// Scope is where metrics go; default nowhere.
	Scope tally.Scope
}

// Canceled is the reason, in metrics and answers, of a request whose context ended
// before its turn came.
const Canceled = "canceled"

// Asker asks an Engine about requests. Use New. It is safe for concurrent use.
type Asker struct {
	engine  edge.Engine
	key     *keys.Template
	maxWait time.Duration
	random  func() float64
	counted [edge.Reasons]tally.Counter

	canceled tally.Counter // whose context ended before their turn came
}

// New returns an Asker of engine. The error says what is wrong with s.
func New(engine edge.Engine, s Setup) (*Asker, error) {
	key, err := keys.Parse(s.Key)
	switch {
	case err != nil:
	case engine == nil:
		err = errors.New("the engine is nil: use engine.New(node.Group(), nil) of package limiter/engine")
	case s.MaxWait < 0:
		err = fmt.Errorf("a MaxWait of %v: use 0 or more", s.MaxWait)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	if s.Random == nil {
		s.Random = rand.Float64
	}
	a := &Asker{engine: engine, key: key, maxWait: s.MaxWait, random: s.Random}
	scope := scopes.Guard(s.Scope, slog.Default()).SubScope(s.Name)
	counter := func(reason string) tally.Counter {
		return scope.Tagged(map[string]string{"reason": reason}).Counter(s.Counter)
	}
	for i := range a.counted {
		a.counted[i] = counter(edge.Reason(i).String())
	}
	a.canceled = counter(Canceled)
	return a, nil
}

// Uses reports whether the key has an attribute of that name.
func (a *Asker) Uses(attribute string) bool { return a.key.Uses(attribute) }

// Decide takes cost tokens for the request that of has the attributes of, and
// waits for them if it may. The error is that of ctx, if it ended before.
func (a *Asker) Decide(ctx context.Context, of keys.Source, cost int64) (edge.Decision, error) {
	d, err := edge.Await(ctx, a.engine, edge.Ask{Key: a.key.Key(of), Cost: cost, Longest: a.maxWait, Own: true})
	switch {
	case err != nil:
		a.canceled.Inc(1)
	case int(d.Reason) < len(a.counted):
		a.counted[d.Reason].Inc(1)
	}
	return d, err
}

// Later is after how long a refused caller should come again; 0: it is not
// known.
func (a *Asker) Later(d *edge.Decision) time.Duration { return edge.Later(d.RetryAfter, a.random()) }

// Explain says what a reason means to a caller: by a code, which is the same number in gRPC and in
// YARPC, and in words. Callers can do nothing about our limits, and so learn little of them.
func Explain(r edge.Reason) (code uint32, text string) {
	const invalid, denied, exhausted, unavailable = 3, 7, 8, 14
	switch r {
	case edge.Limited:
		return exhausted, "too many calls"
	case edge.TooManyKeys:
		return exhausted, "too many callers"
	case edge.TooCostly:
		return exhausted, "the call asks for more than one call may"
	case edge.Unmatched:
		return denied, "no limit lets this call through"
	case edge.InvalidKey:
		return invalid, "the call does not say enough about its caller"
	default:
		return unavailable, "the call's limit could not be checked"
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package asks measures how long decisions wait for the owner of their key, and how long
// they take without one. It knows one host and one owner, and no load but a light one.
package asks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/nodeload/figures"
)

// Config says how long Measure measures. The zero value is what docs/scale.md shows.
type Config struct {
	// Answered is for how long the owner answers; default 10s.
	Answered time.Duration
	// Gone is for how long the owner does not; default 5s.
	Gone time.Duration
}

// Costs is how long decisions wait for the owner of their key.
type Costs struct {
	// TimeoutMs is the ask_timeout.
	TimeoutMs float64 `json:"ask_timeout_ms"`
	// Decisions are all, while the owner answered, and Asks those that it paid.
	Decisions int `json:"decisions"`
	Asks      int `json:"asks"`

	AskP50Ms float64 `json:"ask_p50_ms"`
	AskP99Ms float64 `json:"ask_p99_ms"`
	// Call is a call of the same size over the same transport between them, to a
	// server that sends back what it gets.
	CallP50Ms float64 `json:"call_p50_ms"`
	CallP99Ms float64 `json:"call_p99_ms"`

	Hung    GoneCost `json:"hung"`
	Stopped GoneCost `json:"stopped"`
}

// GoneCost is how long decisions take without the owner of their key.
type GoneCost struct {
	Decisions int `json:"decisions"`
	// Waited are decisions that took more than half of the ask_timeout, and LongestMs
	// is the longest of all.
	Waited    int     `json:"waited"`
	LongestMs float64 `json:"longest_ms"`
	// LaterP99Ms is of the decisions after the first second.
	LaterP99Ms float64 `json:"later_p99_ms"`
}

const (
	askKeys    = 300
	askCallers = 4
	askGap     = 4 * time.Millisecond // of each caller, on average
	takesSize  = 60                   // bytes of a message that asks for one event
	byOwner    = "owner"              // the By of a Decision that the owner made
)

// Measure measures decisions of one node about keys of another, over loopback, under
// auto and at one to two events/s for each key: with so few, a host asks often.
func Measure(ctx context.Context, config Config) (c Costs, err error) {
	config.Answered = cmp.Or(config.Answered, 10*time.Second)
	config.Gone = cmp.Or(config.Gone, 5*time.Second)
	for _, row := range []struct {
		into *GoneCost
		gone func(p *pair) error
	}{
		{&c.Hung, func(p *pair) error { p.gate.shut(); return nil }},
		{&c.Stopped, func(p *pair) error { return p.owner.Stop(ctx) }},
	} {
		if err := c.measure(ctx, config, row.into, row.gone); err != nil {
			return c, fmt.Errorf("asks: %w", err)
		}
	}
	return c, nil
}

// measure fills in c's figures and those of gone, by a pair of its own.
func (c *Costs) measure(ctx context.Context, config Config, into *GoneCost, gone func(p *pair) error) (err error) {
	p, err := newPair(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	answered := p.use(ctx, config.Answered, true)
	if err := gone(p); err != nil {
		return err
	}
	without := p.use(ctx, config.Gone, false)

	c.TimeoutMs = figures.Ms(rule.DefaultAskTimeout)
	c.Decisions, c.Asks = len(answered.all), len(answered.asked)
	c.AskP50Ms, c.AskP99Ms = figures.Ms(figures.Quantile(answered.asked, 0.5)), figures.Ms(figures.Quantile(answered.asked, 0.99))
	c.CallP50Ms, c.CallP99Ms = figures.Ms(figures.Quantile(answered.calls, 0.5)), figures.Ms(figures.Quantile(answered.calls, 0.99))
	*into = GoneCost{
		Decisions: len(without.all), LongestMs: figures.Ms(figures.Quantile(without.all, 1)),
		LaterP99Ms: figures.Ms(figures.Quantile(without.later, 0.99)),
	}
	for _, took := range without.all {
		if took > rule.DefaultAskTimeout/2 {
			into.Waited++
		}
	}
	return nil
}

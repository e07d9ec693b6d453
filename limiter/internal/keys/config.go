// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"log/slog"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Config is what a Set works with.
type Config struct {
	Log      *slog.Logger // nil discards
	Scope    tally.Scope  // nil is nowhere
	Migrator stage.Migrator
	Traits   map[string]dynamicconfig.Traits // of algorithms that headgate does not have
	Remotes  map[string]stage.Remote         // by algorithm
	Charges  map[string]stage.Charges        // of those Remotes that take charges of many keys at a time
	Levels   map[string]elsewhere.Level      // of those Remotes that know how many tokens they have
	Listener Listener                        // nil if there is none

	// Placement says who owns which key; nil is one owner of all.
	Placement rpc.Placement

	// Background runs f, instead of a goroutine; nil is one for each.
	Background func(f func())

	// Seed makes jitter repeatable; nil is random.
	Seed *uint64
}

// fill sets what is nil to what does nothing.
func (c *Config) fill() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Scope = scopes.Guard(c.Scope, c.Log)
}

// Listener is notified of what happens to keys. Its methods are safe for concurrent
// use. Decided and Changed do not block.
type Listener interface {
	// Decided is called for each decision. rule is empty if none matched.
	Decided(now stage.Instant, key, rule string, n int64, v stage.Verdict)

	// Changed is called when a key came, went, or fell back.
	Changed(now stage.Instant, change Change, key, rule string)

	// Run passes on the calls until ctx ends. dropped counts what was lost. It
	// blocks.
	Run(ctx context.Context, log *slog.Logger, dropped func(n int64))
}

// Change is what happened to a key.
type Change uint8

// The Changes.
const (
	Created Change = iota
	Removed
	FallbackEntered
	FallbackLeft
)

// changed notifies the listener.
func (c *Config) changed(now stage.Instant, change Change, key, rule string) {
	if c.Listener != nil {
		c.Listener.Changed(now, change, key, rule)
	}
}

// fallbackChanged notifies the listener that the key of a part has entered or left its fallback.
func (c *Config) fallbackChanged(now stage.Instant, part *share.Base, entered bool) {
	change := FallbackLeft
	if entered {
		change = FallbackEntered
	}
	c.changed(now, change, part.Key(), part.Terms().Rule.Key)
}

// traitsOf are the Traits of an algorithm that rules may name.
func (c *Config) traitsOf(name string) dynamicconfig.Traits {
	if t, ok := c.Traits[name]; ok {
		return t
	}
	t, _ := dynamicconfig.TraitsOf(name)
	return t
}

// shareTerms are the terms of a rule under one of its algorithms.
func (c *Config) shareTerms(a *ruleState, name string, answers bool) *share.Terms {
	t := &share.Terms{
		Rule: a.Rule, Algorithm: name, Traits: c.traitsOf(name), Debt: max(a.Rule.MaxDebt, 0),
	}
	if answers {
		t.Counts, t.Asked = &a.usage.Counts, &a.usage.Asked
	}
	t.Reports = !t.Traits.Local && (c.Remotes[name] == nil) != (name == share.Auto) // auto needs a Remote to ask
	return t
}

// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"log/slog"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Option is a collaborator of a Group.
type Option func(*options)

type options struct {
	log       *slog.Logger
	scope     tally.Scope
	migrator  Migrator
	traits    map[string]dynamicconfig.Traits
	remotes   map[string]stage.Remote // by algorithm
	listeners []func([]Event)
	aside     func(func()) // instead of a goroutine in the background
	seed      *uint64
}

func defaults() options {
	return options{
		log: slog.New(slog.DiscardHandler), scope: tally.NoopScope,
		traits: make(map[string]dynamicconfig.Traits), remotes: make(map[string]stage.Remote),
	}
}

// Options are several options as one.
func Options(all ...Option) Option {
	return func(o *options) {
		for _, option := range all {
			option(o)
		}
	}
}

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option { return func(o *options) { o.scope = scope } }

// WithMigration sets how a rule's migration is carried out: see
// shadow.Migrator. Without it, a rule with a migration uses the limiter that its
// mode answers with.
func WithMigration(m Migrator) Option { return func(o *options) { o.migrator = m } }

// WithAlgorithm says what hosts must know of an algorithm that headgate does
// not have.
func WithAlgorithm(name string, traits dynamicconfig.Traits) Option {
	return func(o *options) { o.traits[name] = traits }
}

// WithRemote has r asked for the keys under an algorithm. Nothing about them is
// reported to owners, but under Auto. What r does not answer, this host's part
// under the rule's fallback decides; r is charged for what that let through
// when it answers again.
//
// So the methods of those keys' limiters take as long as r does.
func WithRemote(algorithm string, r stage.Remote) Option {
	return func(o *options) { o.remotes[algorithm] = r }
}

// WithListener has f called with what happens to the keys of a Group, in
// batches of up to 256. It may be used several times. Each f is called by one
// goroutine at a time, while Run runs; all get the same slice, which nobody may
// change.
//
// Decisions never wait for a listener. What one cannot take in as fast as it
// happens is dropped, and counted: 8192 events wait for all listeners, and 16
// batches for each. Slots in flight are not told of.
//
// With a listener a decision costs about as much again as it does without;
// without one, it costs nothing.
func WithListener(f func(events []Event)) Option {
	return func(o *options) { o.listeners = append(o.listeners, f) }
}

// WithSeed makes the Group's jitter repeatable. By default it is random.
func WithSeed(seed uint64) Option { return func(o *options) { o.seed = &seed } }

// WithBackground sets what runs f for a remote bucket, which takes time: to
// tell it what it is owed, or to measure it. The default is a goroutine for
// each, and a bound on how many. The simulator, where nothing takes time, runs
// it at once.
func WithBackground(run func(f func())) Option { return func(o *options) { o.aside = run } }

// traitsOf are the Traits of an algorithm that rules may name.
func (o *options) traitsOf(name string) dynamicconfig.Traits {
	if t, ok := o.traits[name]; ok {
		return t
	}
	t, _ := dynamicconfig.TraitsOf(name)
	return t
}

// shareTerms are the terms of a rule under one of its algorithms.
func (o *options) shareTerms(a *ruleState, name string, answers bool) *share.Terms {
	t := &share.Terms{
		Rule: a.rule, Algorithm: name, Traits: o.traitsOf(name), Debt: max(a.rule.MaxDebt, 0),
	}
	if answers {
		t.Counts = &a.counts
	}
	t.Reports = !t.Traits.Local && (o.remotes[name] == nil || name == Auto)
	return t
}

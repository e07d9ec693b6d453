// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"log/slog"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Option is a collaborator of a Group.
type Option func(*options)

type options struct {
	keys.Config
	listeners []func([]Event)
}

func defaults() options {
	return options{Config: keys.Config{
		Log: slog.New(slog.DiscardHandler), Scope: tally.NoopScope,
		Traits: make(map[string]dynamicconfig.Traits), Remotes: make(map[string]stage.Remote),
	}}
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
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.Log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option { return func(o *options) { o.Scope = scope } }

// WithMigration sets how a rule's migration is carried out: see
// shadow.Migrator. Without it, a rule with a migration uses the limiter that its
// mode answers with.
func WithMigration(m stage.Migrator) Option { return func(o *options) { o.Migrator = m } }

// WithAlgorithm says what hosts must know of an algorithm that headgate does
// not have.
func WithAlgorithm(name string, traits dynamicconfig.Traits) Option {
	return func(o *options) { o.Traits[name] = traits }
}

// WithPlacement says who owns which key, as it does for the Updater. Early reports to
// one owner share messages, and the owner gets few of them, however many keys it owns.
// Without it, all keys count as one owner's, as they do for a client of an edge.
func WithPlacement(p rpc.Placement) Option { return func(o *options) { o.Placement = p } }

// WithRemote has limiters ask r for the keys under an algorithm. The host does not
// report these keys to owners, except under Auto. If r does not answer, this host's
// part under the rule's fallback decides. When r answers again, the host charges r
// for what the fallback let through.
//
// The methods of these limiters take as long as r does.
func WithRemote(algorithm string, r stage.Remote) Option {
	return func(o *options) { o.Remotes[algorithm] = r }
}

// WithListener has f called with what happens to the keys of a Group, in
// batches of up to 256. It may be used several times. Each f is called by one
// goroutine at a time, while Run runs; all get the same slice, which nobody may
// change.
//
// Decisions never wait for a listener. Events that a listener is too slow for are
// dropped, and counted: 8192 events wait for all listeners, and 16 batches for each.
// There are no events for slots in flight.
//
// With a listener, a decision takes about twice as long.
func WithListener(f func(events []Event)) Option {
	return func(o *options) { o.listeners = append(o.listeners, f) }
}

// WithSeed makes the Group's jitter repeatable. By default it is random.
func WithSeed(seed uint64) Option { return func(o *options) { o.Seed = &seed } }

// WithBackground sets what runs f for a remote bucket, which takes time: to
// tell it what it is owed, or to measure it. The default is a goroutine for
// each, and a bound on how many.
func WithBackground(run func(f func())) Option { return func(o *options) { o.Background = run } }

// Background returns what runs a function in a goroutine of its own, at most
// most of them at a time; it returns false if as many run already. A panic of
// one ends nothing.
func Background(most int) func(func()) bool {
	return remote.NewBackground(most, slog.New(slog.DiscardHandler)).Run
}

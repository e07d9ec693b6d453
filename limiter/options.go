// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"log/slog"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/events"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
)

// Option is a collaborator of a Group. Without one, or with one that is nil, the Group works
// with its default.
type Option func(*keys.Config)

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(c *keys.Config) { c.Log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option { return func(c *keys.Config) { c.Scope = scope } }

// WithMigration sets how a rule's migration is carried out: see
// shadow.Migrator. Without it, a rule with a migration uses the limiter that its
// mode answers with.
func WithMigration(m stage.Migrator) Option { return func(c *keys.Config) { c.Migrator = m } }

// WithAlgorithm says what hosts must know of an algorithm of the service's own. A service
// with a Node uses headgate.WithAlgorithm or headgate.WithPayload, which do it.
func WithAlgorithm(name string, traits dynamicconfig.Traits) Option {
	return func(c *keys.Config) { c.Traits[name] = traits }
}

// WithRemote has limiters ask r for the keys under an algorithm. The host does not
// report these keys to owners, except under Auto. If r does not answer, this host's
// part under the rule's fallback decides. When r answers again, the host charges r
// for what the fallback let through.
//
// The methods of these limiters take as long as r does.
func WithRemote(algorithm string, r stage.Remote) Option {
	return func(c *keys.Config) {
		if c.Remotes[algorithm] = r; r == nil {
			delete(c.Remotes, algorithm)
		}
		delete(c.Charges, algorithm)
		delete(c.Levels, algorithm)
	}
}

// WithCharges has the host send its charges to the remote of an algorithm through all, for many
// keys in one call. Without it, the host makes a call of the remote for each key. Put
// WithCharges after the WithRemote of the algorithm: a later WithRemote removes it.
func WithCharges(algorithm string, all stage.Charges) Option {
	return func(c *keys.Config) { c.Charges[algorithm] = all }
}

// WithListener has f called with what happens to the keys of a Group, in
// batches of up to 256. It may be used several times. Each f is called by one
// goroutine at a time, while Run runs; all get the same slice, which no listener may
// change.
//
// Decisions never wait for a listener. Events that a listener is too slow for are
// dropped, and counted: 8192 events wait for all listeners, and 16 batches for each.
// There are no events for slots in flight.
//
// With a listener, a decision takes about twice as long.
func WithListener(f func(events []Event)) Option {
	return func(c *keys.Config) {
		if f == nil {
			return
		}
		all, ok := c.Listener.(bus)
		if !ok {
			all = bus{events.New[Event]()}
			c.Listener = all
		}
		all.Listen(f)
	}
}

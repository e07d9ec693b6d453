// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// WithPlacement tells the Group who owns which key; its Updater sends reports to the same
// owners. The Group then puts early reports for one owner into one message, so that an owner
// gets few messages, however many keys it owns. Without it, all keys count as one owner's, as
// they do for a client of an edge.
func WithPlacement(p rpc.Placement) limiter.Option { return func(c *keys.Config) { c.Placement = p } }

// WithLevel has the Group show how many tokens the buckets of the remote of an algorithm have, which level
// tells without waiting. Without it, the Group shows those that were left as of the last answer, and what
// has come in since. Put WithLevel after the limiter.WithRemote of the algorithm: a later WithRemote removes it.
func WithLevel(algorithm string, level func(now stage.Instant, key string) (tokens float64, ok bool)) limiter.Option {
	return func(c *keys.Config) {
		if c.Levels == nil {
			c.Levels = make(map[string]elsewhere.Level)
		}
		c.Levels[algorithm] = level
	}
}

// WithSeed makes the Group's jitter repeatable. By default it is random.
func WithSeed(seed uint64) limiter.Option { return func(c *keys.Config) { c.Seed = &seed } }

// WithBackground sets what runs the calls of remote buckets that no caller waits for:
// charges, refunds, and events that are only measured. run calls f, which takes as long as the
// remote bucket does, at once or later, in any goroutine. The default is a goroutine for each
// call, and a bound on how many.
func WithBackground(run func(f func())) limiter.Option {
	return func(c *keys.Config) { c.Background = run }
}

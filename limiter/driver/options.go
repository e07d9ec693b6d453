// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/rpc"
)

// WithPlacement says who owns which key, as the Updater of the Group knows. Early reports to
// one owner share messages, and the owner gets few of them, however many keys it owns.
// Without it, all keys count as one owner's, as they do for a client of an edge.
func WithPlacement(p rpc.Placement) limiter.Option { return func(c *keys.Config) { c.Placement = p } }

// WithSeed makes the Group's jitter repeatable. By default it is random.
func WithSeed(seed uint64) limiter.Option { return func(c *keys.Config) { c.Seed = &seed } }

// WithBackground sets what runs f for a remote bucket, which takes time: to
// tell it what it is owed, or to measure it. The default is a goroutine for
// each, and a bound on how many.
func WithBackground(run func(f func())) limiter.Option {
	return func(c *keys.Config) { c.Background = run }
}

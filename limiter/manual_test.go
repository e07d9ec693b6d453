// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// manual is driver.Driver for tests within this package, which cannot import it.
type manual struct {
	keys.Reports
	*Group
}

type batch = report.Batch

func (g *Group) Manual() manual { return manual{g.keys().Reports(), g} }

func (m manual) Configure(now stage.Instant, s *dynamicconfig.Snapshot) { m.keys().Configure(now, s) }

func (m manual) SetHosts(now stage.Instant, hosts int) { m.keys().SetHosts(now, hosts) }

func (m manual) Introduce(now stage.Instant) { m.keys().Introduce(now) }

func (m manual) Inspect(now stage.Instant, key string) (Status, bool) {
	return m.inspect(now, key)
}

func WithSeed(seed uint64) Option { return func(c *keys.Config) { c.Seed = &seed } }

func WithBackground(run func(f func())) Option {
	return func(c *keys.Config) { c.Background = run }
}

func WithPlacement(p rpc.Placement) Option { return func(c *keys.Config) { c.Placement = p } }

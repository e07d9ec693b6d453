// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"log/slog"

	"github.com/uber-go/tally/v4"
	"go.uber.org/fx"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
)

// Module provides a *Node, and its *limiter.Group, to an fx app. The Node starts
// and stops with the app. The app provides a Config, a dynamicconfig.Source and
// a ringpop.Members. A *slog.Logger, a tally.Scope and an []Option are optional.
var Module = fx.Module("headgate",
	fx.Provide(newForFx),
	fx.Provide(func(n *Node) *limiter.Group { return n.Group() }),
)

// params is what Module takes.
type params struct {
	fx.In

	Lifecycle fx.Lifecycle
	Config    Config
	Source    dynamicconfig.Source
	Members   ringpop.Members
	Logger    *slog.Logger `optional:"true"`
	Scope     tally.Scope  `optional:"true"`
	Options   []Option     `optional:"true"`
}

func newForFx(p params) (*Node, error) {
	var opts []Option
	if p.Logger != nil {
		opts = append(opts, WithLogger(p.Logger))
	}
	if p.Scope != nil {
		opts = append(opts, WithScope(p.Scope))
	}
	n, err := New(p.Config, p.Source, p.Members, append(opts, p.Options...)...)
	if err != nil {
		return nil, err
	}
	p.Lifecycle.Append(fx.Hook{OnStart: n.Start, OnStop: n.Stop})
	return n, nil
}

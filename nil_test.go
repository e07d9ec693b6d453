// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"net"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/health"
	"github.com/headgate/headgate/ringpop/static"
)

// No Option makes New or a Node panic: the Node works with its default, or New says what is
// wrong.
func TestANodeWorksWithoutWhatIsNil(t *testing.T) {
	for name, tt := range map[string]struct {
		option headgate.Option
		works  bool
	}{
		"option": {nil, true}, "logger": {headgate.WithLogger(nil), true}, "scope": {headgate.WithScope(nil), true},
		"transport": {headgate.WithTransport(nil), true}, "instrument": {headgate.WithInstrument(nil), true},
		"limiter": {headgate.WithLimiter(nil), true}, "answers": {headgate.WithAnswers(nil), true},
		"no points": {headgate.WithPoints(0), true}, "fewer points": {headgate.WithPoints(math.MinInt), false},
		"many points": {headgate.WithPoints(math.MaxInt), false},
		"most points": {headgate.WithPoints(ringpop.MaxPoints), true}, "more points": {headgate.WithPoints(ringpop.MaxPoints + 1), false},
		"health":    {headgate.WithHealth(health.Config{}), true},
		"no ticks":  {headgate.WithHealth(health.Config{Interval: -1}), false},
		"no time":   {headgate.WithHealth(health.Config{After: -1}), false},
		"TLS":       {headgate.WithTLS(nil), false},
		"rotating":  {headgate.WithRotatingTLS(nil), false},
		"no TLS":    {headgate.WithRotatingTLS(func() *tls.Config { return nil }), false},
		"remote":    {headgate.WithRemote("r", nil), false},
		"no rule's": {headgate.WithRemote("Redis", &counting{}), false},
		"algorithm": {headgate.WithAlgorithm("a", nil), false},
		"payload":   {headgate.WithPayload("p", headgate.Payload{}), false},
		"parent":    {headgate.WithParent("c", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			address := l.Addr().String()
			members, err := static.New(ringpop.Host{Address: address}, ringpop.Host{Address: "127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			n, err := headgate.New(headgate.Config{Address: address}, memory.New(limits(t, fast)), members,
				headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)), tt.option)
			if (err == nil) != tt.works {
				t.Fatalf("New returns %v", err)
			}
			if err != nil {
				return
			}
			if err := n.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !n.For("k").Allow() {
				t.Error("it limits nothing")
			}
			if err := n.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// sourceless is a config source without a config.
type sourceless struct{}

func (sourceless) Load(context.Context) (*dynamicconfig.Snapshot, error) { return nil, nil }

func (sourceless) Watch(context.Context, func(*dynamicconfig.Snapshot, error)) error { return nil }

func TestASourceWithoutAConfigIsAnError(t *testing.T) {
	members, err := static.New(ringpop.Host{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := headgate.New(headgate.Config{Address: "127.0.0.1:1"}, sourceless{}, members); err == nil {
		t.Error("New makes a Node without limits")
	}
}

// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

// wild is a tally.Scope whose code panics: that of each metric, or, if early, that which makes them.
type wild struct {
	tally.Scope

	early bool
}

func (w wild) Counter(string) tally.Counter {
	if w.early {
		panic("a name is used twice")
	}
	return wildMetric{}
}

func (w wild) Gauge(string) tally.Gauge {
	if w.early {
		panic("a name is used twice")
	}
	return wildMetric{}
}

func (w wild) Histogram(string, tally.Buckets) tally.Histogram {
	if w.early {
		panic("a name is used twice")
	}
	return wildMetric{}
}

func (w wild) Tagged(map[string]string) tally.Scope { return w }
func (w wild) SubScope(string) tally.Scope          { return w }

// wildMetric is one that panics.
type wildMetric struct{}

func (wildMetric) Inc(int64)                    { panic("no connection") }
func (wildMetric) Update(float64)               { panic("no connection") }
func (wildMetric) RecordValue(float64)          { panic("no connection") }
func (wildMetric) RecordDuration(time.Duration) { panic("no connection") }
func (wildMetric) Start() tally.Stopwatch       { panic("no connection") }

// A service brings its own metrics. If their code panics, nothing but metrics is missing: decisions, reports and
// grants are as they would be, and the Node stops in order.
func TestAScopeThatPanicsChangesNothingElse(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("early %v", early), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				const address = "127.0.0.1:7933"
				members, err := static.New(ringpop.Host{Address: address})
				if err != nil {
					t.Fatal(err)
				}
				source := memory.New(limits(t, "defaults: {update_interval: 1s}\nlimits:\n- {key: a, limit: 100/s, burst: 10, max_wait: 1s, algorithm: auto}\n- {key: b, limit: 10/s, burst: 10, algorithm: elastic, fallback: closed}\n"))
				n, err := headgate.New(headgate.Config{Address: address}, source, members, headgate.WithTransport(&late{starts: 1}),
					headgate.WithScope(wild{tally.NoopScope, early}), headgate.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
				if err != nil {
					t.Fatal(err)
				}
				if err := n.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					for range 20 {
						n.For("a").Decide(t.Context(), 1, time.Second) // some wait
						n.For("b").Allow()
						n.For("none").Allow()
					}
					time.Sleep(time.Second)
				}
				if !n.For("a").Allow() || !n.For("b").Allow() { // without reports, b has no grant
					t.Error("a key is refused that has its limit to itself")
				}
				if err := n.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				if lines := strings.Count(logged.String(), "a metrics scope panicked"); lines != 1 {
					t.Errorf("%d log lines about panics within some seconds", lines)
				}
			})
		})
	}
}

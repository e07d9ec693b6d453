// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/daemon/above"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

const (
	globalRules = `
limits:
  - {key: "k", limit: 100/s, algorithm: fair-share, lease: 10s, refresh: 1s, recalculate: 0s, learning: 0s}
`
	regionRules = `
limits:
  - {key: "*", limit: 1000/s, algorithm: proportional-share, lease: 20s, refresh: 1s, recalculate: 0s, learning: 0s, parent: true}
`
)

// journal is a log that tests read.
type journal struct {
	mu   sync.Mutex // protects following fields
	text bytes.Buffer
}

func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	return j.text.Write(text)
}

// count is how often words were logged.
func (j *journal) count(words string) int {
	j.mu.Lock()
	defer j.mu.Unlock()

	return strings.Count(j.text.String(), words)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// wantsOf asks d for key as a client of Doorman's.
func wantsOf(t *testing.T, capacity doormanpb.CapacityClient, client, key string, wants float64, has *doormanpb.Lease) *doormanpb.Lease {
	t.Helper()
	r, err := capacity.GetCapacity(t.Context(), &doormanpb.GetCapacityRequest{
		ClientId: &client,
		Resource: []*doormanpb.ResourceRequest{{ResourceId: &key, Priority: new(int64(0)), Wants: &wants, Has: has}},
	})
	if err != nil || len(r.GetResponse()) != 1 {
		t.Errorf("%v, %v", r, err) // not Fatal: many ask at once
		return nil
	}
	return r.GetResponse()[0].GetGets()
}

// restartable is a daemon whose edge stays at one address.
func restartable(t *testing.T, rules string) (edge string, run func() (stop func())) {
	t.Helper()
	edge = addresstest.Free(t, 1)[0]
	c := Config{Limits: write(t, "global.yaml", rules), Listen: "127.0.0.1:0", Edge: edge, Drain: 100 * time.Millisecond}
	return edge, func() func() {
		d, err := Start(t.Context(), c, quiet)
		if err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(func() { _ = d.Stop(context.Background()) }) // it may end calls
		t.Cleanup(stop)
		return stop
	}
}

func TestCapacityComesFromTheClusterAbove(t *testing.T) {
	for _, protocol := range []string{above.Headgate, above.Doorman} {
		t.Run(protocol, func(t *testing.T) {
			edge, run := restartable(t, globalRules)
			var log journal
			c := config(t)
			c.Limits, c.Parent, c.ParentProtocol, c.Cluster = write(t, "region.yaml", regionRules), []string{edge}, protocol, "eu"
			d, err := Start(t.Context(), c, log.logger())
			if err != nil {
				t.Fatalf("with a parent that is away: %v", err)
			}
			defer func() {
				if err := d.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			capacity := doormanpb.NewCapacityClient(dial(t, d.Edge()))
			eventually(t, "it says that the parent is away", func() bool {
				if got := wantsOf(t, capacity, "a", "k", 400, nil).GetCapacity(); got != 0 {
					t.Fatalf("%v out of nothing", got)
				}
				return log.count("cluster above does not answer") > 0
			})
			if got := d.health(); got.Checks["parent"].OK || !strings.Contains(got.Checks["parent"].Error, edge) || !got.Ready {
				t.Errorf("without the parent: %+v", got)
			}
			stop := run()
			var lease *doormanpb.Lease
			eventually(t, "it has what the parent has", func() bool {
				lease = wantsOf(t, capacity, "a", "k", 400, lease)
				if lease.GetCapacity() > 100 {
					t.Fatalf("%v of the parent's 100", lease.GetCapacity())
				}
				return lease.GetCapacity() == 100
			})
			// Its own rule says 20 s; the cluster above leases for 10.
			if left := time.Until(time.Unix(lease.GetExpiryTime(), 0)); left > 10*time.Second {
				t.Errorf("a lease of %v outlives the parent's", left)
			}
			eventually(t, "it says that the parent is back", func() bool { return log.count("cluster above answers again") > 0 })
			eventually(t, "its health says so", func() bool { return d.health().Checks["parent"].OK })
			away := log.count("cluster above does not answer") // more than once if the parent was late
			stop()
			eventually(t, "it says once more that it is away", func() bool { return log.count("cluster above does not answer") > away })
			if got := wantsOf(t, capacity, "a", "k", 400, lease).GetCapacity(); got != 100 {
				t.Errorf("%v as soon as the parent is away, want the lease's 100", got)
			}
			back := log.count("cluster above answers again")
			run()
			eventually(t, "it says that the parent is back again", func() bool { return log.count("cluster above answers again") > back })
		})
	}
}

func TestAParentWithoutTheRuleIsTold(t *testing.T) {
	edge, run := restartable(t, "limits: []\n")
	run()
	var log journal
	c := config(t)
	c.Limits, c.Parent, c.Cluster = write(t, "region.yaml", regionRules), []string{edge}, "eu"
	d, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	capacity := doormanpb.NewCapacityClient(dial(t, d.Edge()))
	eventually(t, "it says that there is no rule", func() bool {
		wantsOf(t, capacity, "a", "k", 10, nil)
		return log.count("cluster above has no rule for a key") == 1
	})
}

func TestRulesAndParentsMustGoTogether(t *testing.T) {
	for _, tc := range []struct {
		name, rules string
		parent      []string
		want        string
	}{
		{"a rule without a parent", regionRules, nil, "but there is no cluster above"},
		{"a parent without a rule", rules, []string{"127.0.0.1:1"}, "the cluster above is never asked"},
		{"both", regionRules, []string{"127.0.0.1:1"}, ""},
		{"neither", rules, nil, ""},
	} {
		var log journal
		c := config(t)
		c.Limits, c.Parent = write(t, "limits.yaml", tc.rules), tc.parent
		if len(c.Parent) > 0 {
			c.Cluster = "eu"
		}
		d, err := Start(t.Context(), c, log.logger())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if got := log.count("level=WARN"); tc.want == "" && got != 0 || tc.want != "" && log.count(tc.want) != 1 {
			t.Errorf("%s: %d warnings: %s", tc.name, got, log.text.String())
		}
	}
}

func TestMistakesAboutParents(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"no name", func(c *Config) { c.Cluster = "" }, "name this cluster"},
		{"a name of two words", func(c *Config) { c.Cluster = "eu west" }, `cluster "eu west"`},
		{"no port", func(c *Config) { c.Parent = []string{"10.1.0.1"} }, `parent: address "10.1.0.1" is not host:port`},
		{"twice", func(c *Config) { c.Parent = []string{"h:1", "h:1"} }, "stands twice"},
		{"no such protocol", func(c *Config) { c.ParentProtocol = "http" }, "say headgate or doorman"},
		{"a name only", func(c *Config) { c.Parent = nil }, "but no parent"},
		{"itself", func(c *Config) { c.EdgeAddress = "10.1.0.1:7934" }, "is this decider's own edge"},
	} {
		c := config(t)
		c.Parent, c.Cluster = []string{"10.1.0.1:7934"}, "eu"
		tc.change(&c)
		d, err := Start(t.Context(), c, quiet)
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			_ = d.Stop(context.Background())
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v does not say %s", tc.name, err, tc.want)
		}
	}
}

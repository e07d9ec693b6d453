// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/client"
)

func TestMain(m *testing.M) { waittest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

const rules = `
defaults: {update_interval: 100ms, algorithm: request-weighted}
limits:
  - {key: "k*", limit: 1000/s, lease: 500ms, idle_after: 1h}
`

func parse(t testing.TB, text string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve runs a lone decider with rules until the test ends, or stop.
func serve(t testing.TB, edge, rules string) (d *daemon.Daemon, stop func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), daemon.Config{Limits: file, Listen: "127.0.0.1:0", Edge: edge, Drain: time.Millisecond}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		// Clients hang up too late for so short a drain; that is an error.
		_ = d.Stop(context.Background())
	}
	t.Cleanup(stop)
	return d, stop
}

func newClient(t testing.TB, c client.Config, source dynamicconfig.Source, opts ...client.Option) *client.Client {
	t.Helper()
	made, err := client.New(c, source, append([]client.Option{client.WithLogger(quiet)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	return made
}

// eventually waits for a condition, not for a time.
var eventually = waittest.Until

func share(c *client.Client, key string) limiter.ShareStatus {
	st, ok := c.Group().Inspect(key)
	if !ok || len(st.Shares) == 0 {
		return limiter.ShareStatus{Fallback: true}
	}
	return st.Shares[0]
}

func TestHostsOfRemoteDecidersShareByLoad(t *testing.T) {
	d, _ := serve(t, "127.0.0.1:0", rules)
	source := memory.New(parse(t, rules))
	busy := newClient(t, client.Config{Addresses: []string{d.Edge()}, Hosts: 2}, source)
	quiet := newClient(t, client.Config{Addresses: []string{d.Edge()}, Hosts: 2}, source)
	if busy.Host() == quiet.Host() {
		t.Errorf("two processes of one machine have the name %q", busy.Host())
	}
	eventually(t, "the busy host has most of the limit", func() bool {
		for range 90 {
			busy.For("k").Allow()
		}
		for range 10 {
			quiet.For("k").Allow()
		}
		a, b := share(busy, "k"), share(quiet, "k")
		return !a.Fallback && !b.Fallback && a.Weight > 0.8 && b.Weight > 0 && b.Weight < 0.2
	})
}

func TestFallsBackWhileNoDeciderIsThereAndComesBack(t *testing.T) {
	d, stop := serve(t, addresstest.Free(t, 1)[0], rules)
	c := newClient(t, client.Config{Addresses: []string{d.Edge()}, Hosts: 4}, memory.New(parse(t, rules)))
	use := func() limiter.ShareStatus { c.For("k").Allow(); return share(c, "k") }
	eventually(t, "a grant of all, as the only host", func() bool { s := use(); return !s.Fallback && s.Level.Limit == 1000 })
	stop()
	eventually(t, "the fallback, limit ÷ hosts", func() bool { s := use(); return s.Fallback && s.Level.Limit == 250 })
	c.SetHosts(5)
	if s := use(); s.Level.Limit != 200 {
		t.Errorf("one of five has %v", s.Level.Limit)
	}
	serve(t, d.Edge(), rules)
	eventually(t, "a grant again", func() bool { return !use().Fallback })
}

func TestFollowsItsLimitsAndOutlivesClose(t *testing.T) {
	d, _ := serve(t, "127.0.0.1:0", rules)
	source := memory.New(parse(t, rules))
	c := newClient(t, client.Config{Addresses: []string{d.Edge()}}, source)
	held := c.For("k")
	held.Allow()
	source.Set(parse(t, strings.Replace(rules, "1000/s", "0/s", 1)))
	eventually(t, "a new limit reaches a limiter that is held", func() bool { return held.Limit() == 0 })
	if c.Limits().Applied() != 1 {
		t.Errorf("%d configs applied", c.Limits().Applied())
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if held.Allow() || held.Limit() != 0 || !c.For("other").Allow() {
		t.Error("after Close, limiters do not go on")
	}
}

func TestMistakesAreTold(t *testing.T) {
	good := memory.New(parse(t, rules))
	broken := memory.New(nil)
	for _, tc := range []struct {
		name   string
		config client.Config
		source dynamicconfig.Source
		want   []string
	}{
		{
			"all at once",
			client.Config{Addresses: []string{"nowhere"}, Hosts: -1, Host: strings.Repeat("h", 2000)},
			good,
			[]string{`"nowhere" is not host:port`, "-1 hosts", "2000 bytes"},
		},
		{"good addresses", client.Config{Addresses: []string{"h:1"}, Hosts: client.MaxHosts + 1}, good, []string{"1000001 hosts"}},
		{"no addresses", client.Config{}, good, []string{"0 addresses"}},
		{"no limits", client.Config{Addresses: []string{"h:1"}}, broken, []string{"client: load limits:"}},
	} {
		c, err := client.New(tc.config, tc.source)
		if err == nil {
			c.Close()
			t.Errorf("%s: no error", tc.name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %s", tc.name, err, want)
			}
		}
	}
}

func TestAsksEarlyUnderAllAlgorithmsThatCanAnswer(t *testing.T) {
	// Reports under these come outside the interval; with an interval of an
	// hour, nothing else brings a grant.
	registry := algorithm.Builtin()
	for _, name := range registry.Names() {
		a, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if a.Account != algorithm.AccountPool {
			continue
		}
		text := "defaults: {update_interval: 1h, lease: 2h, algorithm: " + name + "}\nlimits:\n  - {key: k, limit: 100/s}\n"
		d, _ := serve(t, "127.0.0.1:0", text)
		c := newClient(t, client.Config{Addresses: []string{d.Edge()}}, memory.New(parse(t, text)))
		eventually(t, name+": a host that runs dry asks early", func() bool {
			c.For("k").Allow()
			return !share(c, "k").Fallback
		})
	}
}

func TestNobodyListensYet(t *testing.T) {
	c := newClient(t, client.Config{Addresses: addresstest.Free(t, 1)}, memory.New(parse(t, rules)))
	if !c.For("k").Allow() || !share(c, "k").Fallback {
		t.Error("a host without deciders has no fallback")
	}
}

func TestAClientNeedsASource(t *testing.T) {
	if _, err := client.New(client.Config{Addresses: []string{"127.0.0.1:7934"}}, nil); err == nil || !strings.Contains(err.Error(), "source is nil") {
		t.Error(err)
	}
}

// deaf is a source that does not heed its context.
type deaf struct {
	dynamicconfig.Source
	watched, open chan struct{}
}

func (d deaf) Watch(context.Context, func(*dynamicconfig.Snapshot, error)) error {
	close(d.watched)
	<-d.open
	return nil
}

// A listener of the program that blocks, or a source, keeps no lease from other hosts.
func TestCloseGivesBackWhatIsLeasedThoughCodeOfTheProgramBlocks(t *testing.T) {
	const rules = `
defaults: {update_interval: 100ms, algorithm: fair-share, learning: 0s, recalculate: 0s}
limits:
  - {key: "k", limit: 1000/s, lease: 10m}
`
	d, _ := serve(t, "127.0.0.1:0", rules)
	c := client.Config{Addresses: []string{d.Edge()}, Hosts: 2}
	other := newClient(t, c, memory.New(parse(t, rules)))
	other.For("k").SetDemand(1000)
	blocks := func(source dynamicconfig.Source, blocked, open chan struct{}, opts ...client.Option) {
		one := newClient(t, c, source, opts...)
		one.For("k").SetDemand(1000)
		eventually(t, "both hosts have a half", func() bool { return share(one, "k").Weight == 0.5 && share(other, "k").Weight == 0.5 })
		one.For("k").Allow()
		<-blocked
		closed := make(chan error, 1)
		go func() { closed <- one.Close() }()
		defer func() {
			close(open)
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}()
		eventually(t, "the other host has all", func() bool { return share(other, "k").Weight == 1 })
		if len(closed) > 0 {
			t.Error("Close has returned although code of the program goes on")
		}
	}
	blocked, open := make(chan struct{}, 1000), make(chan struct{})
	blocks(memory.New(parse(t, rules)), blocked, open, client.WithLimiter(limiter.WithListener(func([]limiter.Event) {
		blocked <- struct{}{}
		<-open
	})))
	source := deaf{memory.New(parse(t, rules)), make(chan struct{}), make(chan struct{})}
	blocks(source, source.watched, source.open)
}

// broken is a source whose code panics when it is watched.
type broken struct{ dynamicconfig.Source }

func (broken) Watch(context.Context, func(*dynamicconfig.Snapshot, error)) error {
	panic("a defect of the source")
}

func TestASourceThatPanicsIsAnError(t *testing.T) {
	failed := make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte("a defect of the source")) {
			select {
			case failed <- struct{}{}:
			default: // it is asked again, and fails again
			}
		}
	}), nil))
	source := broken{memory.New(parse(t, "limits: [{key: k, limit: 1/s, burst: 1, algorithm: even}]"))}
	c, err := client.New(client.Config{Addresses: []string{"127.0.0.1:1"}, Hosts: 1}, source, client.WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	<-failed
	if l := c.For("k"); !l.Allow() || l.Allow() {
		t.Error("the limits that were loaded are not in force")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// writer is called with each line of a log.
type writer func(line []byte)

func (w writer) Write(line []byte) (int, error) { w(line); return len(line), nil }

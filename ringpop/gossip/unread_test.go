// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/ringpop"
)

// A host that leaves gossips more about itself than one that starts, and that fits, too.
func TestAHostThatMayStartMaySayThatItLeaves(t *testing.T) {
	for _, observer := range []bool{false, true} {
		for length := 240; length <= maxField; length++ {
			c := Config{
				Cluster: "test", Listen: "127.0.0.1:0", Observer: observer,
				Host: ringpop.Host{Address: "a:1", Identity: strings.Repeat("i", length), Labels: strings.Repeat("l", length)},
			}
			if c.Validate() != nil {
				continue
			}
			m, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			m.leaving.Store(true)
			if said, err := decodeMeta((*delegate)(m).NodeMeta(0)); err != nil || !said.Leaving || said.Observer != observer {
				t.Errorf("identity and labels of %d bytes, observer %v: others read %+v, %v", length, observer, said, err)
			}
		}
	}
}

// Seeds may be slow, as a DNS server that does not answer is.
func TestAHostBeginsAloneThoughItsSeedsAreNotFound(t *testing.T) {
	n, err := New(Config{
		Cluster: "test", Host: ringpop.Host{Address: "a:1"}, Listen: "127.0.0.1:0", JoinWithin: time.Millisecond,
		Seeds: func(ctx context.Context) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { started <- n.Start(ctx) }()
	if err := <-started; err != nil {
		t.Fatalf("a host whose seeds are not found does not begin: %v", err)
	}
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
}

// Seeds that do not return before their context ends are asked again.
func TestSeedsThatHangOnceAreAskedAgain(t *testing.T) {
	t.Parallel()
	a := start(t, "a", nil)
	var asked atomic.Int32
	b := start(t, "b", func(c *Config) {
		c.JoinWithin, c.Rejoin = time.Millisecond, time.Millisecond
		c.Seeds = func(ctx context.Context) ([]string, error) {
			switch asked.Add(1) {
			case 1: // so b begins alone
				<-ctx.Done()
				return nil, ctx.Err()
			case 2:
				select {
				case <-ctx.Done():
				case <-t.Context().Done():
				}
				return nil, ctx.Err()
			}
			return []string{a.Address()}, nil
		}
	})
	eventually(t, "both are together", func() bool { return a.sees("a b") && b.sees("a b") })
}

// A host that was restarted with a later release within a probe says something that this
// one cannot read. What is logged then is so.
func TestAHostThatCannotBeReadAnyMoreIsNotOnTheRing(t *testing.T) {
	n := new(node)
	m, err := New(Config{Cluster: "test", Host: ringpop.Host{Address: "a:1"}, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(n, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d := (*delegate)(m)
	b, err := meta{}.encode()
	if err != nil {
		t.Fatal(err)
	}
	said := &memberlist.Node{Name: "b:1", Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: b}
	d.NotifyJoin(said)
	said.Meta = []byte{metaVersion + 1}
	d.NotifyUpdate(said)
	if all := m.Standings(); len(all) != 1 || all[0].State == ringpop.Up || !strings.Contains(n.logged(), "is not on the ring") {
		t.Errorf("%+v; logged: %s", all, n.logged())
	}
	said.Meta = b
	d.NotifyUpdate(said)
	if all := m.Standings(); len(all) != 1 || all[0].State != ringpop.Up {
		t.Errorf("it can be read again: %+v", all)
	}
}

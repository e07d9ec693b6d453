// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
)

// split is members that say how many are missing.
type split struct {
	hosts   []ringpop.Host
	missing atomic.Int64
	changed chan struct{}
}

func (s *split) Missing() int { return int(s.missing.Load()) }

// Watch implements ringpop.Members.
func (s *split) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	for {
		update(s.hosts)
		select {
		case <-s.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func TestANodeOnTheSmallerSideOfASplitGrantsAPart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	members := &split{hosts: []ringpop.Host{{Address: l.Addr().String()}}, changed: make(chan struct{})}
	node, err := headgate.New(headgate.Config{Address: l.Addr().String()}, memory.New(limits(t, fast)), members,
		headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer node.Stop(context.Background())
	weighs := func(least, most float64) func() bool {
		return func() bool {
			node.For("k").Allow()
			s := share(node, "k")
			return !s.Fallback && s.Weight >= least && s.Weight <= most
		}
	}
	eventually(t, "it has the whole limit", weighs(0.99, 1))
	members.missing.Store(3) // and the list is the same
	members.changed <- struct{}{}
	eventually(t, "it has a quarter", weighs(0.24, 0.26))
	if n := node.Missing(); n != 3 {
		t.Errorf("%d are missing", n)
	}
	members.missing.Store(0)
	members.changed <- struct{}{}
	eventually(t, "it has the whole limit again", weighs(0.99, 1))
}

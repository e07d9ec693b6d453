// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/questions/carried"
	"github.com/headgate/headgate/rpc/usage"
)

// turns asks one edge after another, as a client of several addresses does.
type turns struct {
	edges []rpc.Decider
	next  int
}

func (e *turns) Owner(string) string              { return "edge" }
func (e *turns) Peer(string) (rpc.Decider, error) { return e, nil }
func (e *turns) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	e.next++
	return e.edges[e.next%len(e.edges)].Update(ctx, host, payload)
}

// program is a host that listens nowhere. Of an earlier release, it answers no questions.
func program(t *testing.T, nodes []*headgate.Node, name string, earlier bool) *limiter.Group {
	t.Helper()
	limits := nodes[0].Limits().Current()
	g := limiter.NewGroup(limits, 4)
	edges := new(turns)
	for _, n := range nodes {
		edges.edges = append(edges.edges, n.Edge(nil))
	}
	var to rpc.Peers = edges
	if !earlier {
		trace := func(on bool) func(context.Context, []byte) (any, error) {
			return func(_ context.Context, about []byte) (any, error) { return g.Trace(string(about), on), nil }
		}
		to = peer{&carried.Program{Edge: edges, Answers: questions.Answers{
			"key": func(_ context.Context, about []byte) (any, error) {
				return explain.Here("a name that it chose", g, limits, 4, string(about)), nil
			},
			"trace": trace(true), "untrace": trace(false),
		}}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx, &usage.Fanout{Host: name, Placement: edges, Peers: to})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return g
}

// peer is the only one.
type peer struct{ rpc.Decider }

func (p peer) Peer(string) (rpc.Decider, error) { return p.Decider, nil }

// A host that listens nowhere is asked with the grants of its reports, and is in the answer:
// what its owner knows of it at once, and what it says itself after its next report, also if
// its owner is gone.
func TestExplainKnowsHostsThatListenNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, wire := bubble.Start(t, 3, "defaults: {update_interval: 1s, lease: 1m}\nlimits: [{key: k, limit: 60/s, burst: 60, algorithm: elastic}, {key: 's:*', limit: 60/s, algorithm: elastic, shared: true}]")
		owner := nodes[0].Ring().Owner("k")
		at := nodes[0]
		if at.Address() == owner {
			at = nodes[1]
		}
		now, old := program(t, nodes, "program", false), program(t, nodes, "earlier", true)
		use := func(seconds int) {
			for range seconds {
				for range 30 { // not at once: after a clump a host may say that it wants nothing
					now.For("k").Allow()
					now.For("s:a").Allow()
					time.Sleep(time.Second / 30)
				}
				old.For("k").Allow()
				at.For("k").Allow()
			}
		}
		use(5)
		hosts := func(key string) (explain.Explanation, map[string]explain.Host) {
			e := at.Explain(t.Context(), key)
			all := make(map[string]explain.Host)
			for _, h := range e.Hosts {
				all[h.Host] = h
				if len(h.Owned) > 0 || len(h.Programs) > 0 {
					t.Errorf("%s: %+v", h.Host, h)
				}
			}
			return e, all
		}

		e, all := hosts("k")
		if p := all["program"]; len(all) != 5 || !p.Program || p.Answered != nil || p.AtOwner == nil || math.Abs(p.AtOwner.Wants-30) > 10 || p.AtOwner.Weight <= all["earlier"].AtOwner.Weight {
			t.Errorf("at once: %+v, %+v", p, p.AtOwner)
		}
		if !e.Waits() || !strings.Contains(e.Because, "3 of 5 hosts use it") || !strings.Contains(e.Because, "2 programs listen nowhere") {
			t.Errorf("%s", e.Because)
		}
		if len(e.Owned) != 1 || e.Owned[0].Pool == nil || e.Owned[0].Over != 0 || e.Owned[0].OverBound == nil || len(e.Owned[0].Hosts) != 3 {
			t.Errorf("the owner knows %+v", e.Owned)
		}
		if h := all[at.Address()]; h.Program || h.AtOwner == nil || h.AtOwner.Silent == nil || *h.AtOwner.Silent > 2 {
			t.Errorf("a member: %+v", h)
		}

		at.Trace(t.Context(), "k", true)
		use(4)
		_, all = hosts("k")
		if p := all["program"]; p.Answered == nil || time.Since(*p.Answered) > 5*time.Second || p.Key.Allowed == 0 || p.Key.Because == "" || p.AtOwner == nil || !p.Traced || len(p.Decisions) == 0 {
			t.Errorf("after its report: %+v", p)
		}
		if p := all["earlier"]; !p.Program || p.Answered != nil || p.AtOwner == nil {
			t.Errorf("of an earlier release: %+v", p)
		}
		at.Trace(t.Context(), "k", false)
		use(4)
		hosts("k")
		use(4)
		if _, all = hosts("k"); all["program"].Traced {
			t.Error("still traced")
		}

		hosts("s:a")
		use(4)
		if _, all = hosts("s:a"); all["program"].Answered == nil || !all["program"].Key.InUse {
			t.Errorf("of a shared bucket: %+v", all["program"])
		}

		wire.Cut(owner)
		time.Sleep(2 * time.Minute) // what was answered before is forgotten
		hosts("k")
		use(4)
		e, all = hosts("k")
		if p := all["program"]; e.OwnerAnswers || len(e.Owned) != 0 || p.Answered == nil || p.AtOwner != nil {
			t.Errorf("without the owner: %s, %+v", e.Because, p)
		}
	})
}

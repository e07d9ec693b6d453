// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/aggregator/keyed"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

// notes is an Owner that counts how often each of its methods was called.
type notes struct {
	aggregator.Owner

	mu    sync.Mutex // protects calls
	calls map[string]int
}

func (n *notes) note(method string) {
	n.mu.Lock()
	defer n.mu.Unlock()

	n.calls[method]++
}

func (n *notes) count(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.calls[method]
}

func (n *notes) Configure(s *dynamicconfig.Snapshot) error {
	n.note("Configure")
	return n.Owner.Configure(s)
}

func (n *notes) RingMoved(c aggregator.Cluster) { n.note("RingMoved"); n.Owner.RingMoved(c) }

func (n *notes) HandOver(ctx context.Context, c aggregator.Cluster) error {
	n.note("HandOver")
	return n.Owner.HandOver(ctx, c)
}

func (n *notes) Sweep(now time.Time) { n.note("Sweep"); n.Owner.Sweep(now) }

func (n *notes) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	n.note("Update")
	return n.Owner.Update(ctx, host, payload)
}

// An Owner of a payload gets the limits, the ring, the sweeps and the messages of its Node.
func TestAnOwnerOfAPayloadFollowsItsNode(t *testing.T) {
	limits := func(text string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Parse("limits", []byte("defaults: {update_interval: 100ms, algorithm: mine}\nlimits: [{key: k, limit: "+text+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := ringpop.Host{Address: l.Addr().String()}
	members, err := hosted.New(own)
	if err != nil {
		t.Fatal(err)
	}
	mine := keyed.Payload[int64, float64, int64]{
		Type:   "example.com/mine",
		Ask:    func(used keyed.Use) int64 { return used.Allowed },
		Decide: func(_ time.Time, _ string, all *int64, used int64) float64 { *all += used; return 1 },
		Grant:  func(weight float64) keyed.Grant { return keyed.Grant{Weight: weight, Burst: 1, Lease: time.Minute} },
	}
	owner := &notes{Owner: mine.Owner(), calls: make(map[string]int)}
	source := memory.New(limits("100/s"))
	node, err := headgate.New(headgate.Config{Address: own.Address}, source, members, headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)),
		headgate.WithPayload("mine", headgate.Payload{TypeURL: mine.Type, Codec: mine.Codec(), Owner: owner}))
	if err != nil {
		t.Fatal(err)
	}
	if owner.count("Configure") != 1 {
		t.Error("the first limits do not come before the first message")
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "messages and sweeps come", func() bool {
		node.For("k").Allow()
		return owner.count("Update") > 1 && owner.count("Sweep") > 1
	})
	configured, moved := owner.count("Configure"), owner.count("RingMoved")
	source.Set(limits("200/s"))
	if err := members.Set([]ringpop.Host{own, {Address: "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "new limits and a new ring come", func() bool {
		return owner.count("Configure") > configured && owner.count("RingMoved") > moved
	})
	handed := owner.count("HandOver") // to the other host, which does not answer
	if err := node.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if owner.count("HandOver") <= handed {
		t.Error("a host that leaves hands nothing over")
	}
}

// A grant of a payload that is no number is counted and logged. It costs no other key a grant.
func TestABadGrantOfAPayloadIsCounted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := ringpop.Host{Address: l.Addr().String()}
	members, err := hosted.New(own)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := dynamicconfig.Parse("limits", []byte("defaults: {update_interval: 100ms, algorithm: mine}\nlimits: [{key: '*', limit: 100/s}]"))
	if err != nil {
		t.Fatal(err)
	}
	mine := keyed.Payload[string, string, int]{
		Type:   "example.com/mine",
		Ask:    func(used keyed.Use) string { return used.Key },
		Decide: func(_ time.Time, _ string, _ *int, key string) string { return key },
		Grant: func(key string) keyed.Grant {
			return keyed.Grant{Weight: map[string]float64{"bad": math.NaN(), "good": 0.5}[key], Burst: 1, Lease: time.Minute}
		},
	}
	log, scope := new(logged), tally.NewTestScope("", nil)
	node, err := headgate.New(headgate.Config{Address: own.Address}, memory.New(limits), members, headgate.WithListen(l), log.option(), headgate.WithScope(scope),
		headgate.WithPayload("mine", headgate.Payload{TypeURL: mine.Type, Codec: mine.Codec(), Owner: mine.Owner()}))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the bad grant is counted and logged, and the good one is there", func() bool {
		node.For("good").Allow()
		node.For("bad").Allow()
		return node.For("good").Limit() == 50 && scope.Snapshot().Counters()["headgate.limiter.bad_grants+"].Value() > 1 && log.count("NaN") > 0
	})
	if n := log.count("have no grant"); n != 1 {
		t.Errorf("%d lines say so", n)
	}
	if err := node.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// A payload cannot have the traits of algorithms that headgate decides itself. Its owner would not
// hear of what hosts use: never with Local, and with Pooled not while a migration measures it
// beside auto.
func TestAPayloadReachesTokensByItsOwnerOnly(t *testing.T) {
	mine := keyed.Payload[int64, float64, int64]{Type: "example.com/mine"}
	members, err := hosted.New(ringpop.Host{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, traits := range map[string]dynamicconfig.Traits{"Asks": {Asks: true}, "Pooled": {Pooled: true}, "Local": {Local: true}, "": {Rates: true, Slots: true, Wants: true, Early: true}} {
		p := headgate.Payload{TypeURL: mine.Type, Codec: mine.Codec(), Owner: mine.Owner(), Traits: traits}
		_, err := headgate.New(headgate.Config{Address: "127.0.0.1:1"}, memory.New(limits(t, fast)), members, headgate.WithPayload("mine", p))
		if refused := err != nil && strings.Contains(err.Error(), "payload mine: its traits have Asks, Pooled or Local"); refused != (name != "") {
			t.Errorf("traits with %q: %v", name, err)
		}
	}
}

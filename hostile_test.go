// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// A message takes 200 microseconds of a processor, most of them in the transport, so that
// ten million take about twenty minutes on two processors that do nothing else. GOGC only
// makes garbage collection cheaper: the test measures memory after a collection of its own.
//
//	GOGC=800 go test -run TestAnOwnerSurvivesHostileInput -timeout 1h -v . -hostile 10000000
//
// If time is short, the attack ends some minutes before the timeout, and the test says
// how many messages it was.
var hostileMessages = flag.Int64("hostile", 0, "messages that an owner is sent; 0: 20,000, or 100,000 in the long form")

// callsAtOnce is how many messages are under way on each connection of an attacker. Frames
// of several calls share a packet, so that a message costs less.
const callsAtOnce uint64 = 4

// favour weighs hosts by what they want, and some of them double.
func favour(capacity float64, demands []algorithm.Demand, parts []float64) {
	all := 0.0
	for i, d := range demands {
		if parts[i] = d.Wants; strings.HasSuffix(d.Host, "7") {
			parts[i] *= 2
		}
		all += parts[i]
	}
	for i := range parts {
		parts[i] *= capacity / all
	}
}

// wildParent is a cluster above that answers nonsense, or panics.
type wildParent struct{}

func (wildParent) Claim(_ context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	absurd := []float64{0, 1, 500, 1e18, math.NaN(), math.Inf(1), -1, 1 << 53}
	leases := new(claims.Leases)
	for range asked.Rows {
		leases.Rows = append(leases.Rows, claims.Lease{Amount: absurd[rand.IntN(len(absurd))], Safe: 1, Lasts: time.Second, Refresh: time.Duration(rand.IntN(1000)) * time.Millisecond})
	}
	switch rand.IntN(20) {
	case 0:
		panic("the cluster above")
	case 1:
		return nil, nil
	case 2:
		return &claims.Leases{}, make([]error, 3)
	case 3:
		return leases, make([]error, 1)
	}
	return leases, nil
}

// hostile is one owner and what attacks it.
type hostile struct {
	*testing.T

	node    *headgate.Node
	source  *memory.Source
	scope   tally.TestScope
	log     *hostileLog
	edge    string // address of the node's edge
	answers [4]atomic.Int64
	other   sync.Map // texts of other errors
}

// newHostile runs a node with an edge, until the test ends.
func newHostile(t *testing.T) *hostile {
	t.Helper()
	l := listen(t)
	members, err := static.New(ringpop.Host{Address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{T: t, source: memory.New(limits(t, hostileRules)), scope: tally.NewTestScope("", nil), log: &hostileLog{count: make(map[string]int)}}
	h.node, err = headgate.New(headgate.Config{Address: l.Addr().String()}, h.source, members,
		headgate.WithListen(l), headgate.WithLogger(slog.New(h.log)), headgate.WithScope(h.scope), headgate.WithParent("below", wildParent{}),
		headgate.WithAlgorithm("favour", favour), headgate.WithPayload("first-come", firstCome()))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.node.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h.edge = serveEdge(t, h.node)
	return h
}

// serveEdge serves any key at n's edge over plain gRPC, until the test ends.
func serveEdge(t *testing.T, n *headgate.Node) (address string) {
	t.Helper()
	l, server := listen(t), grpc.NewServer(rpcgrpc.ServerDefaults()...)
	rpcgrpc.Register(server, n.Edge(nil), rpcgrpc.ServerOptions{})
	healthy := health.NewServer()
	healthy.SetServingStatus(rpcgrpc.Service, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthy)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return l.Addr().String()
}

// attack sends so many messages over several connections, while the rules change
// all the time.
func (h *hostile) attack(messages int64) (peak uint64) {
	began, changes := time.Now(), hostileChanges(h.T)
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	end, ok := h.Deadline()
	if !ok {
		end = began.Add(24 * time.Hour)
	}
	end = end.Add(-2 * time.Minute)
	var sent atomic.Int64
	var attackers, others sync.WaitGroup
	for i := range 10 {
		attackers.Go(func() {
			h.attacker(uint64(i), func() bool { return sent.Add(1) <= messages && time.Now().Before(end) })
		})
	}
	others.Go(func() {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			h.source.Set(changes[i%len(changes)])
			<-every.C
		}
	})
	others.Go(func() {
		every, told := time.NewTicker(time.Second), began
		defer every.Stop()
		for ctx.Err() == nil {
			peak = max(peak, liveHeap())
			h.room()
			if <-every.C; time.Since(told) > time.Minute {
				told = time.Now()
				h.Logf("%v: %d messages, at most %d MiB of live heap", time.Since(began).Round(time.Second), sent.Load(), peak>>20)
			}
		}
	})
	attackers.Wait()
	cancel()
	others.Wait()
	took := time.Since(began)
	messages = 0
	for i := range h.answers {
		messages += h.answers[i].Load()
	}
	h.Logf("%d messages in %v, %.0f/s; accepted %d, invalid %d, of an unknown type %d, other errors %d",
		messages, took.Round(time.Millisecond), float64(messages)/took.Seconds(), h.answers[0].Load(), h.answers[1].Load(), h.answers[2].Load(), h.answers[3].Load())
	h.other.Range(func(text, _ any) bool { h.Log("other error:", text); return true })
	return max(peak, liveHeap())
}

// attacker sends messages over one connection, to the owner or to its edge.
func (h *hostile) attacker(number uint64, goOn func() bool) {
	var to rpc.Decider
	if number%5 == 0 {
		client, err := rpcgrpc.NewClient([]string{h.edge}, rpcgrpc.ClientOptions{})
		if err != nil {
			h.Error(err)
			return
		}
		defer client.Close()
		to = client
	} else {
		client, peer := h.dial()
		defer client.Close()
		to = peer
	}
	var calls sync.WaitGroup
	for i := range callsAtOnce {
		calls.Go(func() {
			f := &forger{Rand: rand.New(rand.NewPCG(number, 14+i)), honest: honestKeys, hosts: honestNames, member: h.node.Address()}
			for goOn() {
				host, payload := f.message()
				ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
				_, err := to.Update(ctx, host, payload)
				cancel()
				h.answered(err)
			}
		})
	}
	calls.Wait()
}

// dial connects to the owner as other hosts do.
func (h *hostile) dial() (*rpcyarpc.Client, rpc.Decider) {
	client, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{})
	if err != nil {
		h.Error(err)
	}
	peer, err := client.Peer(h.node.Address())
	if err != nil {
		h.Error(err)
	}
	return client, peer
}

// answered counts an answer, of which none may be a panic.
func (h *hostile) answered(err error) {
	switch {
	case err == nil:
		h.answers[0].Add(1)
	case strings.Contains(err.Error(), "panic"):
		h.Errorf("a message made the owner panic: %.2000s", err)
	case errors.Is(err, rpc.ErrPayload):
		h.answers[1].Add(1)
	case errors.Is(err, rpc.ErrUnknownType):
		h.answers[2].Add(1)
	default:
		h.answers[3].Add(1)
		text := err.Error()
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			text = text[at:]
		}
		h.other.Store(text[:min(len(text), 200)], nil)
	}
}

func TestAnOwnerSurvivesHostileInput(t *testing.T) {
	messages := *hostileMessages
	switch {
	case messages > 0:
	case testrun.Long():
		messages = 100_000
	case testing.Short():
		messages = 5_000
	default:
		messages = 10_000
	}
	h := newHostile(t)
	before, goroutines := liveHeap(), runtime.NumGoroutine()
	group := h.newHonest()
	group.right("before")

	stop := group.goOn()
	began := time.Now()
	peak := h.attack(messages)
	took := time.Since(began)
	h.source.Set(limits(t, hostileRules+`  - {key: "last:*", limit: 1/s}`))
	eventually(t, "the last rules are in force", func() bool { _, ok := h.node.Limits().Current().Match("last:1"); return ok })
	stop()
	group.right("after")
	group.close()

	bound := before + statedBound()
	t.Logf("live heap: %d MiB before, at most %d MiB, bound %d MiB", before>>20, peak>>20, bound>>20)
	if peak > bound {
		t.Errorf("%d MiB of live heap; the bound is %d MiB", peak>>20, bound>>20)
	}
	// A line of each cause in ten seconds, with a host's name of 1 KiB and an error.
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	t.Logf("log: %d bytes beside those about config, %v", h.log.bytes, h.log.count)
	if most := 100<<10 + 4<<10*int(took.Seconds()); h.log.bytes > most {
		t.Errorf("%d bytes of log in %v; at most %d", h.log.bytes, took, most)
	}
	for _, line := range h.log.wrong[:min(len(h.log.wrong), 5)] {
		t.Errorf("logged: %.3000s", line)
	}
	counts := counters(h.scope)
	if n := counts["headgate.aggregator.invalid_grants+"]; n != 0 {
		t.Errorf("%d invalid grants of algorithms that are not to blame", n)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
}

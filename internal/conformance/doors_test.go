// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/edge/httpapi"
	"github.com/headgate/headgate/rpc/edge/quotaservice"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/middleware/grpclimit"
	"github.com/headgate/headgate/rpc/middleware/httplimit"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// answer is what a program learns of its event.
type answer struct {
	ok   bool
	wait time.Duration // when ok

	left  float64
	tells bool // left is in the answer
}

// asksForAll is a wait that no rule allows.
const asksForAll = 24 * time.Hour

// door is a way in. A program behind it may take, and what is nil it cannot ask for.
type door struct {
	take   func(cost int64, longest time.Duration) answer
	hold   func(cost int64) (a answer, settle func(cost int64))
	charge func(cost int64) answer

	// waits waits for a token, and reports whether it has one.
	waits func(ctx context.Context) bool

	// group decides for the program.
	group *limiter.Group

	// rounds: left is a whole number, rounded down.
	rounds bool

	// queues: take returns when the wait is over.
	queues bool

	// cancels: what is held can be given back until its time comes, and not be settled
	// for another cost.
	cancels bool

	// unbounded: longest is the program's own setting, which only max_wait bounds.
	unbounded bool
}

// doors are the ways in that ask about events.
var doors = []struct {
	name string
	open func(c *cluster) *door
}{
	{"Go: Decide, Take, Charge", openGo},
	{"Go: Allow, Reserve, Wait", openReserve},
	{"HTTP", openHTTP},
	{"Decider", openDecider},
	{"quotaservice", openQuotaservice},
	{"httplimit", openHTTPLimit},
	{"grpclimit", openGRPCLimit},
}

// openGo is a program that links headgate.
func openGo(c *cluster) *door { return inProcess(c.nodes[0].Group()) }

// openReserve is a program that uses the methods of x/time/rate.
func openReserve(c *cluster) *door {
	of := c.nodes[0].For(key)
	d := queues(c, func(ctx context.Context, cost int64, longest time.Duration) bool {
		if longest <= 0 {
			return of.AllowN(time.Now(), int(cost))
		}
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		return of.WaitN(ctx, int(cost)) == nil
	})
	d.cancels = true
	d.hold = func(cost int64) (answer, func(int64)) {
		r := of.ReserveN(time.Now(), int(cost))
		return answer{ok: r.OK(), wait: r.Delay()}, func(int64) { r.Cancel() }
	}
	return d
}

// inProcess is a program whose limiters are in group.
func inProcess(group *limiter.Group) *door {
	of := func(d limiter.Decision) answer { return answer{d.OK, d.Wait, d.Left, true} }
	return &door{
		group:     group,
		unbounded: true,
		take: func(cost int64, longest time.Duration) answer {
			return of(group.For(key).Decide(context.Background(), int(cost), longest))
		},
		hold: func(cost int64) (answer, func(int64)) {
			e := group.For(key).Take(context.Background(), int(cost), 0)
			return of(e.Decision()), func(cost int64) { e.Settle(int(cost)) }
		},
		charge: func(cost int64) answer {
			group.For(key).Charge(int(cost))
			return answer{ok: true}
		},
		waits: func(ctx context.Context) bool { return group.For(key).Wait(ctx) == nil },
	}
}

// openDecider is a program with limiters of its own, whose owners are behind the edge:
// what package limiter/client is, over a connection in memory.
func openDecider(c *cluster) *door {
	t := c.t
	l := serveGRPC(t, func(s grpc.ServiceRegistrar) {
		rpcgrpc.Register(s, c.nodes[0].Edge(nil), rpcgrpc.ServerOptions{})
	})
	client, err := rpcgrpc.NewClient([]string{"10.0.0.1:7934"}, rpcgrpc.ClientOptions{
		Dial: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := dynamicconfig.Parse("limits.yaml", []byte(c.rules))
	if err != nil {
		t.Fatal(err)
	}
	one := everyKey{client}
	taker := &ask.Taker{Host: "program", Placement: one, Peers: one}
	waits := func(askTimeout time.Duration) time.Duration { return askTimeout * 5 / 2 }
	group := limiter.NewGroup(s, hosts,
		limiter.WithRemote(exact.Name, exact.New(taker).Waits(waits)), limiter.WithRemote(limiter.Auto, exact.NewAuto(taker).Waits(waits)))
	running, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		group.Run(running, &usage.Fanout{Host: "program", Placement: one, Peers: one})
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
		taker.Close()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return inProcess(group)
}

// everyKey is the owner of all keys.
type everyKey struct{ decider rpc.Decider }

func (everyKey) Owner(string) string { return "edge" }

func (e everyKey) Peer(string) (rpc.Decider, error) { return e.decider, nil }

// openQuotaservice is a client of quotaservice.
func openQuotaservice(c *cluster) *door {
	l := serveGRPC(c.t, func(s grpc.ServiceRegistrar) {
		quotaservice.NewServer(engine.New(c.nodes[0].Group(), nil), quotaservice.ServerOptions{}).Register(s)
	})
	client := quotaservicepb.NewQuotaServiceClient(dialGRPC(c.t, l))
	return &door{
		group: c.nodes[0].Group(),
		take: func(cost int64, longest time.Duration) answer {
			r, err := client.Allow(context.Background(), &quotaservicepb.AllowRequest{
				Namespace: "a", BucketName: "b", TokensRequested: cost,
				MaxWaitTimeOverride: longest < asksForAll, MaxWaitMillisOverride: longest.Milliseconds(),
			})
			if err != nil {
				c.t.Fatal(err)
			}
			ok := r.GetStatus() == quotaservicepb.AllowResponse_OK
			if granted := r.GetTokensGranted(); ok && granted != cost || !ok && granted != 0 {
				c.t.Errorf("%v, and %d tokens of %d are granted", r.GetStatus(), granted, cost)
			}
			return answer{ok: ok, wait: time.Duration(r.GetWaitMillis()) * time.Millisecond}
		},
	}
}

// openHTTPLimit is a client of a server with httplimit.
func openHTTPLimit(c *cluster) *door {
	e := engine.New(c.nodes[0].Group(), nil)
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return queues(c, func(ctx context.Context, cost int64, longest time.Duration) bool {
		o := httplimit.Options{Key: key, Throttle: httplimit.Queue, MaxWait: longest, Cost: func(*http.Request) int64 { return cost }}
		if longest <= 0 {
			o.Throttle, o.MaxWait = httplimit.Reject, 0
		}
		limit, err := httplimit.New(e, o)
		if err != nil {
			c.t.Fatal(err)
		}
		w := httptest.NewRecorder()
		limit.Wrap(next).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		return w.Code == http.StatusNoContent
	})
}

// openGRPCLimit is a client of a server with grpclimit. The interceptors for YARPC wait by
// the same code.
func openGRPCLimit(c *cluster) *door {
	e := engine.New(c.nodes[0].Group(), nil)
	return queues(c, func(ctx context.Context, cost int64, longest time.Duration) bool {
		limit, err := grpclimit.New(e, grpclimit.Options{Key: key, MaxWait: longest, Cost: func(context.Context, string, any) int64 { return cost }})
		if err != nil {
			c.t.Fatal(err)
		}
		_, err = limit.UnaryServer(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) { return nil, nil })
		return err == nil
	})
}

// queues is a door at which events wait: pass reports whether one passed, when it did.
func queues(c *cluster, pass func(ctx context.Context, cost int64, longest time.Duration) bool) *door {
	return &door{
		group:     c.nodes[0].Group(),
		unbounded: true,
		queues:    true,
		take: func(cost int64, longest time.Duration) answer {
			began := time.Now()
			ok := pass(context.Background(), cost, longest)
			return answer{ok: ok, wait: time.Since(began)}
		},
		waits: func(ctx context.Context) bool { return pass(ctx, 1, time.Hour) },
	}
}

// openHTTP is a program that speaks JSON.
func openHTTP(c *cluster) *door {
	node := c.nodes[0]
	api := httpapi.New(engine.New(node.Group(), node.Limits().Current), httpapi.Options{})
	post := func(path string, body map[string]any) (a answer, reservation string) {
		text, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		r, w := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(text)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		api.ServeHTTP(w, r)
		var read httpBody
		if err := json.Unmarshal(w.Body.Bytes(), &read); err != nil {
			c.t.Fatal(err)
		}
		a = answer{ok: w.Code == http.StatusOK, wait: time.Duration(read.WaitMS) * time.Millisecond}
		if read.Remaining != nil {
			a.left, a.tells = *read.Remaining, true
		}
		return a, read.Reservation
	}
	return &door{
		group:  node.Group(),
		rounds: true,
		take: func(cost int64, longest time.Duration) answer {
			a, _ := post("/v1/allow", map[string]any{"key": key, "cost": cost, "max_wait_ms": longest.Milliseconds()})
			return a
		},
		hold: func(cost int64) (answer, func(int64)) {
			a, id := post("/v1/reserve", map[string]any{"key": key, "cost": cost})
			return a, func(cost int64) { post("/v1/settle", map[string]any{"reservation": id, "cost": cost}) }
		},
		charge: func(cost int64) answer {
			a, _ := post("/v1/charge", map[string]any{"key": key, "cost": cost})
			return a
		},
	}
}

// httpBody is what a program reads of a body.
type httpBody struct {
	WaitMS      int64    `json:"wait_ms"`
	Remaining   *float64 `json:"remaining"`
	Reservation string   `json:"reservation"`
}

// serveGRPC serves what register puts on a server, in memory, until the test ends.
func serveGRPC(t *testing.T, register func(grpc.ServiceRegistrar)) *bufconn.Listener {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	server := grpc.NewServer(rpcgrpc.ServerDefaults()...)
	register(server)
	serving := health.NewServer() // or else clients of rpcgrpc call nobody
	serving.SetServingStatus(rpcgrpc.Service, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, serving)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began
			t.Error(err)
		}
	})
	return l
}

func dialGRPC(t *testing.T, l *bufconn.Listener) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///edge", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

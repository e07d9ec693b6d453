// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

// first come, first served: an algorithm of somebody else's, with a request,
// a response and state of its own. The first host that uses a key gets all of
// it. Requests and responses are structs: of key to cost, and of key to owner.

type firstCome struct {
	mu     sync.Mutex
	holder map[string]string // key to host
}

func (f *firstCome) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	var request structpb.Struct
	if err := payload.UnmarshalTo(&request); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	response := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for key, cost := range request.GetFields() {
		if f.holder[key] == "" && cost.GetNumberValue() > 0 {
			f.holder[key] = host
		}
		response.Fields[key] = structpb.NewStringValue(f.holder[key])
	}
	return anypb.New(response)
}

type firstComeCodec struct{ host string }

func (firstComeCodec) EncodeReport(u *usage.Report) (*anypb.Any, error) {
	request := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i, key := range u.Keys {
		request.Fields[key] = structpb.NewNumberValue(float64(u.Allowed[i] + u.Rejected[i]))
	}
	return anypb.New(request)
}

func (c firstComeCodec) DecodeGrants(payload *anypb.Any, u *usage.Report) (*usage.Grants, error) {
	var response structpb.Struct
	if err := payload.UnmarshalTo(&response); err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrPayload, err)
	}
	g := &usage.Grants{}
	for _, key := range u.Keys {
		weight := 0.0
		if response.GetFields()[key].GetStringValue() == c.host {
			weight = 1
		}
		g.Weight, g.Lease = append(g.Weight, weight), append(g.Lease, time.Minute)
		g.Burst, g.Used = append(g.Burst, 1), append(g.Used, 0)
	}
	return g, nil
}

// builtIn grants a quarter of everything, by the built-in payload.
type builtIn struct{}

func (builtIn) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	var u usage.Report
	if err := (usage.Columnar{}).DecodeReport(payload, &u); err != nil {
		return nil, err
	}
	g := &usage.Grants{Burst: make([]float64, u.Len()), Used: make([]float64, u.Len())}
	for range u.Keys {
		g.Weight, g.Lease = append(g.Weight, 0.25), append(g.Lease, time.Minute)
	}
	return usage.Columnar{}.EncodeGrants(g, u.Len())
}

// byPrefix gives a key to the owner that stands for its prefix.
type byPrefix map[string]string

func (p byPrefix) Owner(key string) string {
	prefix, _, _ := strings.Cut(key, ":")
	return p[prefix]
}

func usageOf(algorithm string, keys ...string) *usage.Report {
	u := &usage.Report{Algorithm: algorithm, Keys: keys}
	for range keys {
		u.Allowed, u.Rejected, u.Weight = append(u.Allowed, 5), append(u.Rejected, 1), append(u.Weight, 0)
		u.Elapsed = append(u.Elapsed, time.Second)
	}
	return u
}

func weights(f *usage.Fanout, u *usage.Report, timeout time.Duration) (map[string]float64, map[string]error) {
	got, errs := make(map[string]float64), make(map[string]error)
	f.Update(context.Background(), u, timeout, func(p usage.Part, g *usage.Grants, err error) {
		for i, key := range p.Usage.Keys {
			if err != nil {
				errs[key] = err
			} else {
				got[key] = g.Weight[i]
			}
		}
	})
	return got, errs
}

func TestACustomPayloadAndTheBuiltInUseOneDoor(t *testing.T) {
	placement := make(byPrefix)
	for _, owner := range []string{"x", "y"} {
		var mux rpc.Mux
		err := errors.Join(
			mux.Register(usage.ReportTypeURL, builtIn{}),
			mux.Register(rpc.TypeURL(&structpb.Struct{}), &firstCome{holder: make(map[string]string)}),
		)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := serve(t, "127.0.0.1:0", &mux, rpcyarpc.ServerOptions{})
		placement[owner] = s.Addr().String()
	}
	fan := func(host string) *usage.Fanout {
		return &usage.Fanout{
			Host:      host,
			Placement: placement,
			Peers:     newClient(t, rpcyarpc.ClientOptions{Caller: host}),
			Codecs:    map[string]usage.Codec{"first-come": firstComeCodec{host: host}},
		}
	}
	a, b := fan("a"), fan("b")
	for _, row := range []struct {
		fan  *usage.Fanout
		u    *usage.Report
		want map[string]float64
	}{
		{a, usageOf("first-come", "x:1", "y:1"), map[string]float64{"x:1": 1, "y:1": 1}},
		{b, usageOf("first-come", "x:1", "y:2"), map[string]float64{"x:1": 0, "y:2": 1}},
		{a, usageOf("first-come", "y:1", "y:2"), map[string]float64{"y:1": 1, "y:2": 0}}, // the state is at the owner
		{a, usageOf("elastic", "x:1", "y:2"), map[string]float64{"x:1": 0.25, "y:2": 0.25}},
	} {
		got, errs := weights(row.fan, row.u, patience)
		if len(errs) != 0 || !maps.Equal(got, row.want) {
			t.Errorf("%s asks for %v (%s): %v %v, want %v", row.fan.Host, row.u.Keys, row.u.Algorithm, got, errs, row.want)
		}
	}
}

func TestPartialResultsOverTheNetwork(t *testing.T) {
	good, _ := serve(t, "127.0.0.1:0", builtIn{}, rpcyarpc.ServerOptions{})
	hung, _ := serve(t, "127.0.0.1:0", rpc.DeciderFunc(func(ctx context.Context, _ string, _ *anypb.Any) (*anypb.Any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}), rpcyarpc.ServerOptions{})
	gone := listen(t, "127.0.0.1:0")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	fan := &usage.Fanout{
		Host:      "me",
		Placement: byPrefix{"good": good.Addr().String(), "hung": hung.Addr().String(), "gone": gone.Addr().String(), "bad": "no address"},
		Peers:     newClient(t, rpcyarpc.ClientOptions{}),
	}
	// Warm, so that the deadline is not spent on dialling.
	if _, errs := weights(fan, usageOf("elastic", "good:0"), patience); len(errs) != 0 {
		t.Fatal(errs)
	}
	got, errs := weights(fan, usageOf("elastic", "hung:1", "gone:1", "good:1", "bad:1", "nobody:1", "good:2"), time.Second)
	if want := map[string]float64{"good:1": 0.25, "good:2": 0.25}; !maps.Equal(got, want) {
		t.Errorf("granted %v, want %v; errors %v", got, want, errs)
	}
	if len(errs) != 4 || !errors.Is(errs["hung:1"], context.DeadlineExceeded) || !errors.Is(errs["nobody:1"], rpc.ErrNoOwner) {
		t.Errorf("errors %v", errs)
	}
}

// BenchmarkUpdate is a whole report over loopback, client and server in one
// process: 1,000 keys to one owner, which answers without thinking.
func BenchmarkUpdate(b *testing.B) {
	const keys = 1000
	s := rpcyarpc.NewServer(listen(b, "127.0.0.1:0"), builtIn{}, rpcyarpc.ServerOptions{})
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	c, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("x:tenant-%015d", i)
	}
	fan := &usage.Fanout{Host: "me", Placement: byPrefix{"x": s.Addr().String()}, Peers: c}
	u := usageOf("elastic", names...)
	b.ReportAllocs()
	for b.Loop() {
		fan.Update(b.Context(), u, patience, func(_ usage.Part, _ *usage.Grants, err error) {
			if err != nil {
				b.Fatal(err)
			}
		})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

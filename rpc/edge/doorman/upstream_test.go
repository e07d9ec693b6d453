// SPDX-License-Identifier: Apache-2.0

package doorman_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// oddServer answers GetServerCapacity as told, and counts.
type oddServer struct {
	doormanpb.UnimplementedCapacityServer

	address string
	answer  func(*doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error)
	asked   atomic.Int64
	stop    func()
}

func (s *oddServer) GetServerCapacity(_ context.Context, r *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
	s.asked.Add(1)
	return s.answer(r)
}

// serveOdd starts a server that answers as told, or later is.
func serveOdd(t *testing.T, answer func(*doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error), options ...grpc.ServerOption) *oddServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &oddServer{address: l.Addr().String(), answer: answer}
	server := grpc.NewServer(options...)
	doormanpb.RegisterCapacityServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	s.stop = server.Stop
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
			t.Error(err)
		}
	})
	return s
}

// elsewhere says that master is the master; empty: that nobody is.
func elsewhere(master string) func(*doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
	return func(*doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
		m := new(doormanpb.Mastership)
		if master != "" {
			m.MasterAddress = &master
		}
		return &doormanpb.GetServerCapacityResponse{Mastership: m}, nil
	}
}

func upstream(t *testing.T, now func() time.Time, addresses ...string) *doorman.Upstream {
	t.Helper()
	u, err := doorman.NewUpstream(addresses, doorman.UpstreamOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// claim is what one row gets.
func claim(t *testing.T, u *doorman.Upstream, c claims.Claim) (claims.Lease, error) {
	t.Helper()
	leases, errs := u.Claim(t.Context(), &claims.Claims{Rows: []claims.Claim{c}})
	if err := leases.Check(1); err != nil {
		t.Fatal(err)
	}
	if errs != nil {
		return leases.Rows[0], errs[0]
	}
	return leases.Rows[0], nil
}

// withoutZeros is the codec of a server whose code was made of Doorman's protocol as proto3: it
// sends no number that is 0, also where the field is required.
type withoutZeros struct{ encoding.CodecV2 }

func (withoutZeros) Marshal(v any) (mem.BufferSlice, error) {
	answer, ok := v.(*doormanpb.GetServerCapacityResponse)
	if !ok {
		return nil, fmt.Errorf("%T", v)
	}
	for _, r := range answer.GetResponse() {
		if r.GetGets().GetCapacity() == 0 {
			r.Gets.Capacity = nil
		}
		if r.GetAlgorithm().GetKind() == 0 {
			r.Algorithm.Kind = nil
		}
	}
	data, err := proto.MarshalOptions{AllowPartial: true}.Marshal(answer)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func TestUpstreamReadsAnswersWithoutWhatIs0(t *testing.T) {
	ends := time.Now().Add(time.Minute).Unix()
	s := serveOdd(t, func(r *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
		return &doormanpb.GetServerCapacityResponse{Response: []*doormanpb.ServerCapacityResourceResponse{{
			ResourceId: r.GetResource()[0].ResourceId,
			Gets:       &doormanpb.Lease{ExpiryTime: &ends, RefreshInterval: new(int64(5)), Capacity: new(0.0)},
			Algorithm:  &doormanpb.Algorithm{Kind: doormanpb.Algorithm_NO_ALGORITHM.Enum(), LeaseLength: new(int64(60)), RefreshInterval: new(int64(5))},
		}}}, nil
	}, grpc.ForceServerCodecV2(withoutZeros{encoding.GetCodecV2(encodingproto.Name)}))
	got, err := claim(t, upstream(t, nil, s.address), claims.Claim{Key: "r", Host: "eu", Bands: []claims.Band{{Clients: 1, Wants: 5}}})
	if err != nil || got.Amount != 0 || got.Algorithm != "none" || got.Lasts < 50*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUpstreamIsAServerDownstream(t *testing.T) {
	w := onLoopback(t, limits)
	u := upstream(t, w.now, w.address)
	bands := []claims.Band{{Priority: 1, Clients: 2, Wants: 30}, {Priority: 0, Clients: 10, Wants: 2000}}
	leases, errs := u.Claim(t.Context(), &claims.Claims{Rows: []claims.Claim{
		{Key: "fair-1000", Host: "eu", Bands: bands},
		{Key: "nobody's", Host: "eu", Bands: bands},
		{Key: "fair-1000", Host: "us", Has: 5},
		{Key: "fair-1000", Host: "eu", Bands: bands}, // once more, in a request of its own
	}})
	if errs != nil {
		t.Fatal(errs)
	}
	if err := leases.Check(4); err != nil {
		t.Fatal(err)
	}
	fair := leases.Rows[0]
	if fair.Amount != 1000 || fair.Algorithm != "fair-share" || fair.Lasts <= 59*time.Second || fair.Lasts > time.Minute ||
		fair.Refresh <= 0 || fair.Refresh > fair.Lasts || fair.Safe != 1000 {
		t.Errorf("fair-1000: %+v", fair)
	}
	if again := leases.Rows[3]; again.Amount != 1000 {
		t.Errorf("once more: %+v", again)
	}
	if other := leases.Rows[1]; other.Amount != 2030 || other.Algorithm != "none" {
		t.Errorf("no rule: %+v", other)
	}
	if none := leases.Rows[2]; none.Amount != 0 {
		t.Errorf("us wants nothing: %+v", none)
	}
	// The server above knows the two as servers downstream.
	if got := w.getServer("us", "fair-1000", nil, [3]float64{0, 1, 1000}).GetGets().GetCapacity(); got != 0 {
		t.Errorf("us gets %v of what eu has", got)
	}
	// A release is wanting nothing.
	if l, err := claim(t, u, claims.Claim{Key: "fair-1000", Host: "eu", Release: true}); err != nil || l != (claims.Lease{}) {
		t.Errorf("release: %+v, %v", l, err)
	}
}

func TestUpstreamKeepsWhatItHasWhileItLearns(t *testing.T) {
	w := onLoopback(t, limits)
	u := upstream(t, w.now, w.address)
	w.restart()
	// A new master hands back what there is; our clients' wants are not known.
	l, err := claim(t, u, claims.Claim{Key: "fair-learns", Host: "eu", Has: 70, Keep: true, Bands: []claims.Band{{Clients: 3, Wants: 1}}})
	if err != nil || l.Amount != 70 || l.Learning || l.Learns <= 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = claim(t, u, claims.Claim{Key: "fair-learns", Host: "us", Keep: true}); err != nil || l.Amount != 0 || !l.Learning {
		t.Errorf("nothing to keep is a decision: %+v, %v", l, err)
	}
}

func TestUpstreamFindsTheMaster(t *testing.T) {
	w := onLoopback(t, limits)
	away := serveOdd(t, nil)
	away.stop()
	lost := serveOdd(t, elsewhere(""))
	lead := serveOdd(t, elsewhere(w.address))
	u := upstream(t, w.now, away.address, lost.address, lead.address)
	for range 3 {
		if l, err := claim(t, u, claims.Claim{Key: "fair", Host: "eu", Bands: []claims.Band{{Clients: 1, Wants: 10}}}); err != nil || l.Amount != 10 {
			t.Fatalf("%+v, %v", l, err)
		}
	}
	if lost.asked.Load() != 1 || lead.asked.Load() != 1 {
		t.Errorf("it asked those who are not master %d and %d times, want once each", lost.asked.Load(), lead.asked.Load())
	}
}

func TestUpstreamFollowsAnElection(t *testing.T) {
	w := onLoopback(t, limits)
	old := serveOdd(t, func(r *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
		return &doormanpb.GetServerCapacityResponse{Response: []*doormanpb.ServerCapacityResourceResponse{{
			ResourceId: r.GetResource()[0].ResourceId, Gets: lease(7, w.now().Add(time.Minute)),
		}}}, nil
	})
	next := serveOdd(t, elsewhere(w.address))
	u := upstream(t, w.now, old.address, next.address)
	eu := claims.Claim{Key: "fair", Host: "eu", Bands: []claims.Band{{Clients: 1, Wants: 10}}}
	if l, err := claim(t, u, eu); err != nil || l.Amount != 7 || l.Safe != 0 || l.Learns != 0 {
		t.Fatalf("of the old master: %+v, %v", l, err)
	}
	old.stop()
	if l, err := claim(t, u, eu); err != nil || l.Amount != 10 {
		t.Errorf("of the next master: %+v, %v", l, err)
	}
}

func TestUpstreamWithoutAMaster(t *testing.T) {
	nobody := serveOdd(t, elsewhere(""))
	itself := serveOdd(t, nil)
	itself.answer = elsewhere(itself.address)
	circle := serveOdd(t, nil)
	circling := serveOdd(t, elsewhere(circle.address))
	circle.answer = elsewhere(circling.address)
	nowhere := serveOdd(t, elsewhere("nowhere"))
	for name, s := range map[string]*oddServer{"nobody": nobody, "itself": itself, "a circle": circle, "nowhere": nowhere} {
		u := upstream(t, nil, s.address)
		l, err := claim(t, u, claims.Claim{Key: "fair", Host: "eu"})
		if l != (claims.Lease{}) || err == nil {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
		if s != nowhere && !errors.Is(err, doorman.ErrNoMaster) {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.asked.Load() + circling.asked.Load(); n > 20 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

func TestAbsurdAnswersFromAboveAreRefused(t *testing.T) {
	now := time.Now()
	soon := now.Add(time.Minute)
	resource := func(id string, gets *doormanpb.Lease, safe float64) *doormanpb.ServerCapacityResourceResponse {
		return &doormanpb.ServerCapacityResourceResponse{ResourceId: &id, Gets: gets, SafeCapacity: &safe}
	}
	for name, tt := range map[string]struct {
		answer []*doormanpb.ServerCapacityResourceResponse
		want   string // in the error; empty: none
		amount float64
	}{
		"fine":              {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(3, soon), 1)}, "", 3},
		"NaN":               {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(math.NaN(), soon), 1)}, "gets.capacity NaN", 0},
		"infinite":          {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(math.Inf(1), soon), 1)}, "gets.capacity +Inf", 0},
		"negative":          {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(-1, soon), 1)}, "gets.capacity -1", 0},
		"ended":             {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(1, now.Add(-time.Hour)), 1)}, "compare the clocks", 0},
		"for ever":          {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(4, time.Unix(math.MaxInt64, 0)), 1)}, "", 4},
		"of the first day":  {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(4, time.Unix(math.MinInt64, 0)), 1)}, "compare the clocks", 0},
		"nothing":           {nil, "left it out", 0},
		"of something else": {[]*doormanpb.ServerCapacityResourceResponse{resource("l", lease(3, soon), 1)}, "left it out", 0},
		"twice":             {[]*doormanpb.ServerCapacityResourceResponse{resource("k", lease(3, soon), 1), resource("k", lease(9, soon), 1)}, "", 3},
	} {
		s := serveOdd(t, func(*doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
			return &doormanpb.GetServerCapacityResponse{Response: tt.answer}, nil
		})
		l, err := claim(t, upstream(t, func() time.Time { return now }, s.address), claims.Claim{Key: "k", Host: "eu"})
		if l.Amount != tt.amount || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// A safe capacity from above is one client's, and -1 is unlimited. None costs the lease.
func TestSafeCapacityFromAboveIsOfEachClient(t *testing.T) {
	now := time.Now()
	for each, want := range map[float64]float64{0: 0, 5: 60, -1: rpc.MaxAmount, -2: 0, math.NaN(): 0, math.Inf(1): rpc.MaxAmount, 1e300: rpc.MaxAmount} {
		s := serveOdd(t, func(*doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
			return &doormanpb.GetServerCapacityResponse{Response: []*doormanpb.ServerCapacityResourceResponse{
				{ResourceId: new("k"), Gets: lease(3, now.Add(time.Minute)), SafeCapacity: &each},
			}}, nil
		})
		l, err := claim(t, upstream(t, func() time.Time { return now }, s.address), claims.Claim{
			Key: "k", Host: "eu", Bands: []claims.Band{{Priority: 1, Clients: 2, Wants: 30}, {Clients: 10, Wants: 20}},
		})
		if err != nil || l.Amount != 3 || l.Safe != want {
			t.Errorf("safe_capacity %v: %+v, %v; want %v", each, l, err, want)
		}
	}
}

func TestUpstreamsMistakes(t *testing.T) {
	for _, addresses := range [][]string{nil, {"here"}, {"h:1", ":7"}} {
		if _, err := doorman.NewUpstream(addresses, doorman.UpstreamOptions{}); err == nil {
			t.Errorf("%q: no error", addresses)
		}
	}
	s := serveOdd(t, elsewhere(""))
	u := upstream(t, nil, s.address)
	if _, err := claim(t, u, claims.Claim{Key: "k", Host: "eu", Has: math.NaN()}); !errors.Is(err, rpc.ErrPayload) || s.asked.Load() != 0 {
		t.Errorf("NaN: %v", err)
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
	if _, err := claim(t, u, claims.Claim{Key: "k", Host: "eu"}); err == nil {
		t.Error("it answers after Close")
	}
}

// TestAServerThatHangsIsLeftForTheNext has one that accepts and never answers.
func TestAServerThatHangsIsLeftForTheNext(t *testing.T) {
	w := onLoopback(t, limits)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := doorman.NewUpstream([]string{l.Addr().String(), w.address}, doorman.UpstreamOptions{Now: w.now, Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	waittest.Until(t, "the next answers", func() bool { // on a busy machine later than the first claim waits
		l, err := claim(t, u, claims.Claim{Key: "fair", Host: "eu", Bands: []claims.Band{{Clients: 1, Wants: 10}}})
		return err == nil && l.Amount == 10
	})
}

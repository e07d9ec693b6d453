// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/yarpc"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/transport/grpc"
	"go.uber.org/yarpc/yarpcerrors"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

func word(t *testing.T, s string) *anypb.Any {
	t.Helper()
	payload, err := anypb.New(wrapperspb.String(s))
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestOneConnectionPerOwnerIsKept(t *testing.T) {
	s1, l1 := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	s2, l2 := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	c := newClient(t, rpcyarpc.ClientOptions{})
	if l1.accepted.Load() != 0 {
		t.Error("dialled before the first call")
	}
	for range 50 {
		for _, s := range []*rpcyarpc.Server{s1, s2} {
			answer, err := call(t, c, s.Addr().String(), word(t, "hello"), patience)
			if err != nil {
				t.Fatal(err)
			}
			if answer.GetTypeUrl() != rpc.TypeURL(&wrapperspb.StringValue{}) {
				t.Fatalf("answer %v", answer)
			}
		}
	}
	if l1.accepted.Load() != 1 || l2.accepted.Load() != 1 {
		t.Errorf("100 calls took %d and %d connections, want 1 each", l1.accepted.Load(), l2.accepted.Load())
	}
}

func TestKeepClosesWhatLeftTheRing(t *testing.T) {
	stays, lStays := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	leaves, lLeaves := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	c := newClient(t, rpcyarpc.ClientOptions{})
	both := []string{stays.Addr().String(), leaves.Addr().String()}
	for _, address := range both {
		if _, err := call(t, c, address, word(t, "x"), patience); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Keep(both); err != nil {
		t.Fatal(err)
	}
	if err := c.Keep(both[:1]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection to the owner that left is closed", func() bool { return lLeaves.open.Load() == 0 })
	// Somebody may ask who has not heard that the owner left.
	for range 2 {
		for _, address := range both {
			if _, err := call(t, c, address, word(t, "x"), patience); err != nil {
				t.Error(err)
			}
		}
		eventually(t, "that leaves no connection", func() bool { return lLeaves.open.Load() == 0 })
	}
	// The owner may come back.
	if err := c.Keep(both); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, address := range both {
			if _, err := call(t, c, address, word(t, "x"), patience); err != nil {
				t.Error(err)
			}
		}
	}
	if lStays.accepted.Load() != 1 || lLeaves.accepted.Load() != 4 || lLeaves.open.Load() != 1 {
		t.Errorf("%d and %d connections, and %d open, want 1, 4 and 1", lStays.accepted.Load(), lLeaves.accepted.Load(), lLeaves.open.Load())
	}
}

func TestKeepLetsCallsEnd(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	slow := rpc.DeciderFunc(func(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
		close(started)
		<-finish
		return payload, nil
	})
	s, l := serve(t, "127.0.0.1:0", slow, rpcyarpc.ServerOptions{})
	c := newClient(t, rpcyarpc.ClientOptions{})
	result := make(chan error, 1)
	go func() {
		_, err := call(t, c, s.Addr().String(), word(t, "x"), patience)
		result <- err
	}()
	<-started
	if err := c.Keep(nil); err != nil {
		t.Fatal(err)
	}
	close(finish)
	if err := <-result; err != nil {
		t.Errorf("a call under way during Keep: %v", err)
	}
	eventually(t, "the connection closes after its last call", func() bool { return l.open.Load() == 0 })
}

func TestErrorsKeepWhatCallersBranchOn(t *testing.T) {
	var mux rpc.Mux
	for name, err := range map[string]error{
		"x.Refused": usage.Columnar{}.DecodeReport(nil, &usage.Report{}),
		"x.Plain":   errors.New("disk full"),
	} {
		if err := mux.Register(name, rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nil, err })); err != nil {
			t.Fatal(err)
		}
	}
	if err := mux.Register("x.Panics", rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { panic("boom") })); err != nil {
		t.Fatal(err)
	}
	if err := mux.Register("x.Slow", rpc.DeciderFunc(func(ctx context.Context, _ string, _ *anypb.Any) (*anypb.Any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, "127.0.0.1:0", &mux, rpcyarpc.ServerOptions{})
	c := newClient(t, rpcyarpc.ClientOptions{})
	for _, row := range []struct {
		typeURL string
		timeout time.Duration
		is      error // nil: none of ours
		says    string
	}{
		{"x.Refused", patience, rpc.ErrPayload, "expected headgate.v1.Usage"},
		{"x.Unknown", patience, rpc.ErrUnknownType, "this decider knows x.Panics, x.Plain, x.Refused, x.Slow"},
		{"x.Slow", 50 * time.Millisecond, context.DeadlineExceeded, "context deadline exceeded"},
		{"x.Plain", patience, nil, "internal: disk full"},
		{"x.Panics", patience, nil, "boom"},
	} {
		_, err := call(t, c, s.Addr().String(), &anypb.Any{TypeUrl: row.typeURL}, row.timeout)
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.typeURL, err, row.says)
		}
		for _, sentinel := range []error{rpc.ErrPayload, rpc.ErrUnknownType, context.DeadlineExceeded} {
			if errors.Is(err, sentinel) != errors.Is(row.is, sentinel) {
				t.Errorf("%s: %v is %v: %v", row.typeURL, err, sentinel, errors.Is(err, sentinel))
			}
		}
		if err != nil && (strings.Contains(err.Error(), "code:") || strings.Count(err.Error(), "deadline") > 1) {
			t.Errorf("%s: words of the transport, or the same twice: %v", row.typeURL, err)
		}
		if err != nil && strings.Contains(err.Error(), "goroutine ") {
			t.Errorf("%s: a stack travelled: %v", row.typeURL, err)
		}
	}
}

// Either side may miss a deadline first: the caller reads the same.
func TestADeadlineThatTheServerMissesIsPlain(t *testing.T) {
	for _, text := range []string{
		`call to procedure "p" of service "s" from caller "c" timed out`,
		"stream terminated by RST_STREAM with error code: CANCEL (context deadline exceeded)",
	} {
		err := rpcyarpc.FromWire(yarpcerrors.DeadlineExceededErrorf("%s", text))
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "context deadline exceeded" {
			t.Error(err)
		}
	}
	err := rpcyarpc.FromWire(yarpcerrors.DeadlineExceededErrorf("the owner's disk: context deadline exceeded"))
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "deadline-exceeded: the owner's disk: context deadline exceeded" {
		t.Error(err)
	}
}

// Errors are logged, and the other side chooses how long their texts are.
func TestAnErrorHasTheBeginningOfALongText(t *testing.T) {
	err := rpcyarpc.FromWire(yarpcerrors.InvalidArgumentErrorf("%s", strings.Repeat("x", 1<<20)))
	if !errors.Is(err, rpc.ErrPayload) || len(err.Error()) > 3000 || !strings.HasPrefix(err.Error(), "invalid-argument: xxx") {
		t.Errorf("an error of %d bytes: %.100v", len(err.Error()), err)
	}
}

func TestAnAbsentOwnerCostsAtMostTheDeadline(t *testing.T) {
	// Nobody listens here any more: refused at once.
	gone := listen(t, "127.0.0.1:0")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	// The kernel takes the connection, and nobody ever speaks: a black hole.
	mute := listen(t, "127.0.0.1:0")
	t.Cleanup(func() { _ = mute.Close() })

	c := newClient(t, rpcyarpc.ClientOptions{})
	start := time.Now()
	if _, err := call(t, c, gone.Addr().String(), word(t, "x"), patience); err == nil || !strings.Contains(err.Error(), "unavailable: dial tcp "+gone.Addr().String()) {
		t.Errorf("nobody answered: %v", err)
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("a refused connection took %v", took)
	}
	start = time.Now()
	_, err := call(t, c, mute.Addr().String(), word(t, "x"), 100*time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a black hole: %v", err)
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("a black hole took %v of 100ms", took)
	}
	for _, address := range []string{"", "nonsense", "10.0.0.1", "a:b:c"} {
		if _, err := call(t, c, address, word(t, "x"), patience); err == nil {
			t.Errorf("%q is an address?", address)
		}
	}
}

func TestARestartedOwnerIsFoundAgain(t *testing.T) {
	for tries := 1; !foundAgain(t); tries++ {
		if tries == 20 {
			t.Fatal("the machine is always too slow")
		}
	}
}

// foundAgain reports false, and says nothing, if the machine is so slow that gRPC dials again meanwhile.
func foundAgain(t *testing.T) bool {
	t.Helper()
	var age atomic.Int64 // what the client thinks has passed
	start := time.Now()
	c := newClient(t, rpcyarpc.ClientOptions{})
	c.SetClock(func() time.Time { return start.Add(time.Duration(age.Load())) })

	// Nobody listens: after its first attempt gRPC waits a second by itself, less a fifth at most, and
	// longer after each further one.
	address := addresstest.Free(t, 1)[0]
	if _, err := call(t, c, address, word(t, "x"), patience); err == nil {
		t.Fatal("nobody answered, but there is no error")
	}
	_, l := serve(t, address, echo, rpcyarpc.ServerOptions{})
	slow := func() bool { return time.Since(start) >= 800*time.Millisecond }

	age.Store(int64(rpcyarpc.RedialAfter) - 1)
	for range 2 { // too young to be given up
		if _, err := call(t, c, address, word(t, "x"), patience); err == nil {
			if slow() {
				return false
			}
			t.Fatal("gRPC does not wait any more: is redialling still needed?")
		}
	}
	age.Store(int64(rpcyarpc.RedialAfter))
	if _, err := call(t, c, address, word(t, "x"), patience); err == nil {
		if slow() {
			return false
		}
		t.Fatal("the call that finds its connection down fails")
	}
	if _, err := call(t, c, address, word(t, "x"), patience); err != nil {
		t.Errorf("the next call dials anew: %v", err)
	}
	// A connection that is up is kept, whatever becomes of a call.
	age.Store(int64(time.Hour))
	for range 2 {
		if _, err := call(t, c, address, word(t, strings.Repeat("x", 5<<20)), patience); err == nil {
			t.Fatal("a message above the bound was taken")
		}
	}
	if n := l.accepted.Load(); n != 1 {
		if slow() {
			return false
		}
		t.Errorf("%d connections, want 1", n)
	}
	return true
}

// The other side of each is another program's, which has no bound.
func TestMessagesAreBounded(t *testing.T) {
	large := word(t, strings.Repeat("x", rpcyarpc.MaxMessageBytes))
	small := word(t, "x")
	laconic := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return small, nil })
	blowsUp := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return large, nil })
	const unbounded = 1 << 30
	theirs := grpc.NewTransport(grpc.ServerMaxSendMsgSize(unbounded), grpc.ClientMaxSendMsgSize(unbounded))

	s, _ := serve(t, "127.0.0.1:0", laconic, rpcyarpc.ServerOptions{})
	outbound := theirs.NewOutbound(rpcyarpc.NewChooser(theirs.NewDialer()))
	if err := errors.Join(theirs.Start(), outbound.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(outbound.Stop(), theirs.Stop()) }()
	peers := rpcyarpc.PeersOver(&transport.OutboundConfig{CallerName: "c", Outbounds: transport.Outbounds{ServiceName: rpcyarpc.DefaultService, Unary: outbound}})
	if _, err := call(t, peers, s.Addr().String(), large, patience); yarpcerrors.FromError(err).Code() != yarpcerrors.CodeResourceExhausted {
		t.Errorf("to a server: %v", err)
	}
	if _, err := call(t, peers, s.Addr().String(), small, patience); err != nil {
		t.Errorf("within the bound: %v", err)
	}

	l := listen(t, "127.0.0.1:0")
	d := yarpc.NewDispatcher(yarpc.Config{Name: rpcyarpc.DefaultService, Inbounds: yarpc.Inbounds{theirs.NewInbound(l)}})
	d.Register(rpcyarpc.Procedures(blowsUp, nil))
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Stop() }()
	if _, err := call(t, newClient(t, rpcyarpc.ClientOptions{}), l.Addr().String(), small, patience); yarpcerrors.FromError(err).Code() != yarpcerrors.CodeResourceExhausted {
		t.Errorf("to a client: %v", err)
	}
}

// A field of HTTP/2 headers may be one byte on the wire and 40 in memory, so headers are bounded apart
// from messages: 100 connections with 280 kB of them would take gigabytes.
func TestHeadersAreBounded(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	c := newClient(t, rpcyarpc.ClientOptions{})
	d, err := c.Peer(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for size, good := range map[int]bool{8 << 10: true, 20 << 10: false} {
		ctx, cancel := context.WithTimeout(rpc.WithHeaders(t.Context(), map[string]string{"trace": strings.Repeat("x", size)}), patience)
		if _, err := d.Update(ctx, "me", word(t, "x")); (err == nil) != good {
			t.Errorf("headers of %d bytes: %v", size, err)
		}
		cancel()
	}
}

func TestAClosedClientRefuses(t *testing.T) {
	s, l := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	c, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, c, s.Addr().String(), word(t, "x"), patience); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the connection is closed", func() bool { return l.open.Load() == 0 })
	start := time.Now()
	if _, err := call(t, c, s.Addr().String(), word(t, "x"), patience); err == nil || time.Since(start) > patience/2 {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// dispatched is a service's own dispatcher that answers on l and calls others.
func dispatched(t *testing.T, l net.Listener) *rpcyarpc.Dispatched {
	t.Helper()
	transport := grpc.NewTransport()
	chooser := rpcyarpc.NewChooser(transport)
	dispatcher := yarpc.NewDispatcher(yarpc.Config{
		Name:      "orders",
		Inbounds:  yarpc.Inbounds{transport.NewInbound(l)},
		Outbounds: yarpc.Outbounds{"deciders": {ServiceName: "orders", Unary: transport.NewOutbound(chooser)}},
	})
	if _, err := rpcyarpc.OnDispatcher(dispatcher, "deciders", nil, nil); err == nil {
		t.Error("no Chooser passes")
	}
	if _, err := rpcyarpc.OnDispatcher(dispatcher, "others", chooser, nil); err == nil {
		t.Error("an outbound that is not there passes")
	}
	d, err := rpcyarpc.OnDispatcher(dispatcher, "deciders", chooser, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := dispatcher.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dispatcher.Stop(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestAServicesOwnDispatchers(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	server, client := dispatched(t, l), dispatched(t, listen(t, "127.0.0.1:0"))
	if _, err := call(t, client, l.Addr().String(), word(t, "x"), patience); err == nil {
		t.Error("a host answers before it decides")
	}
	if err := server.Start(t.Context(), echo); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := call(t, client, l.Addr().String(), word(t, "x"), patience); err != nil {
			t.Fatal(err)
		}
	}
	if l.accepted.Load() != 1 {
		t.Errorf("%d connections", l.accepted.Load())
	}
	if err := client.Keep(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Keep closes the connection", func() bool { return l.open.Load() == 0 })
}

func TestADispatchedWaitsForCallsUnderWay(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	slow := rpc.DeciderFunc(func(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
		close(started)
		<-finish
		return payload, nil
	})
	l := listen(t, "127.0.0.1:0")
	server, client := dispatched(t, l), dispatched(t, listen(t, "127.0.0.1:0"))
	if err := errors.Join(server.Stop(t.Context()), server.Start(t.Context(), slow)); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := call(t, client, l.Addr().String(), word(t, "x"), patience)
		result <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := server.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped while a call was under way: %v", err)
		}
	}
	if _, err := call(t, client, l.Addr().String(), word(t, "x"), patience); err == nil {
		t.Error("a host that stopped answers")
	}
	close(finish)
	if err := server.Stop(t.Context()); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("the call under way: %v", err)
	}
}

func TestAStandaloneThatIsStoppedAgainWaitsForCallsUnderWay(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	stuck := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
		close(started)
		<-finish
		return nil, errors.New("too late")
	})
	l := listen(t, "127.0.0.1:0")
	s := &rpcyarpc.Standalone{Listener: l}
	if err := s.Start(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	c, result := newClient(t, rpcyarpc.ClientOptions{}), make(chan error, 1)
	go func() {
		_, err := call(t, c, l.Addr().String(), word(t, "x"), patience)
		result <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := s.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped while a call is under way: %v", err)
		}
	}
	close(finish)
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("stopped again: %v", err)
		}
	}
	<-result
}

func TestStopIsPromptWithASilentConnection(t *testing.T) {
	s, l := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{})
	silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	c := newClient(t, rpcyarpc.ClientOptions{})
	if _, err := call(t, c, s.Addr().String(), word(t, "x"), patience); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both connections are there", func() bool { return l.open.Load() == 2 })
	start := time.Now()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	t.Logf("stopped in %v", took)
	if took > patience/2 {
		t.Errorf("stopping took %v", took)
	}
	if l.open.Load() != 0 {
		t.Errorf("%d connections are left open", l.open.Load())
	}
}

func TestStopDoesNotWaitForeverForADecider(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	stuck := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
		close(started)
		<-finish
		return nil, errors.New("too late")
	})
	s, _ := serve(t, "127.0.0.1:0", stuck, rpcyarpc.ServerOptions{})
	c := newClient(t, rpcyarpc.ClientOptions{})
	result := make(chan error, 1)
	go func() {
		_, err := call(t, c, s.Addr().String(), word(t, "x"), patience)
		result <- err
	}()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v", err)
	}
	if err := <-result; err == nil {
		t.Error("the caller has no error")
	}
	close(finish)
}

func TestStopWithoutStartClosesTheListener(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	s := rpcyarpc.NewServer(l, echo, rpcyarpc.ServerOptions{})
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	waittest.Main(m)
}

var quiet = slog.New(slog.DiscardHandler)

const rules = `
defaults: {update_interval: 100ms, algorithm: elastic}
limits:
  - {key: "k*", limit: 1000/s}
`

// write makes a file of the test.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// config is a lone daemon on free ports.
func config(t testing.TB) Config {
	return Config{Limits: write(t, "limits.yaml", rules), Listen: "127.0.0.1:0", Edge: "127.0.0.1:0"}
}

// recording is a log, and what was logged so far.
func recording() (log *slog.Logger, logged func() string) {
	text := new(lines)
	return slog.New(slog.NewTextHandler(text, nil)), text.String
}

// greetings is how long what connects may say nothing, and no end waits for it.
const greetings = 5 * time.Second

// promptly calls stops, which stops a daemon and returns how long that took. It fails t if that is
// as long as greetings each time: a machine that stands still makes it so once.
func promptly(t *testing.T, stops func() time.Duration) {
	t.Helper()
	took := stops()
	for tries := 1; took > greetings && tries < 5; tries++ {
		took = stops()
	}
	if took > greetings {
		t.Errorf("stopping took %v", took)
	}
}

// lines is a strings.Builder for many goroutines.
type lines struct {
	mu   sync.Mutex // protects following field
	text strings.Builder
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

func start(t *testing.T, c Config) *Daemon {
	t.Helper()
	d, err := Start(t.Context(), c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask reports a use of k by host, and returns the grants.
func ask(t *testing.T, d rpc.Decider, host string) (*usage.Grants, error) {
	t.Helper()
	u := &usage.Report{
		Algorithm: "elastic", Keys: []string{"k"}, Allowed: []int64{10}, Rejected: []int64{0},
		Elapsed: []time.Duration{time.Second}, Weight: []float64{0},
	}
	payload, err := usage.Columnar{}.EncodeReport(u)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := d.Update(t.Context(), host, payload)
	if err != nil {
		return nil, err
	}
	return usage.Columnar{}.DecodeGrants(answer, u)
}

func TestTheEdgeAnswersPlainGRPC(t *testing.T) {
	d := start(t, config(t))
	c, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the owner has learned, and grants", func() bool {
		g, err := ask(t, c, "me")
		if err != nil {
			t.Fatal(err)
		}
		return g.Lease[0] > 0 && g.Weight[0] > 0
	})
	conn := dial(t, d.Edge())
	for _, service := range append(d.Services(), "") {
		r, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, r, err)
		}
	}
	if !slices.Contains(d.Services(), rpcgrpc.Service) {
		t.Errorf("services: %v", d.Services())
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: rpcgrpc.Service},
	}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil || len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection of %s: %v, %v", rpcgrpc.Service, r, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	for err == nil { // until the stream ends
		_, err = stream.Recv()
	}
}

// describing is a stream of reflection that was answered once.
func describing(t *testing.T, conn *grpc.ClientConn) grpc_reflection_v1.ServerReflection_ServerReflectionInfoClient {
	t.Helper()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err == nil {
		err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// What one key is all there is to ask for needs no large request; a list does.
func TestLargeRequestsAreForLists(t *testing.T) {
	conn := dial(t, start(t, config(t)).Edge())
	long := strings.Repeat("x", 64<<10)
	_, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: long})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("quotaservice: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: long}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("health: %v", err)
	}
	list := &doormanpb.GetCapacityRequest{ClientId: new("me")}
	for i := range 2_000 {
		list.Resource = append(list.Resource, &doormanpb.ResourceRequest{ResourceId: new(fmt.Sprintf("r%d-%.40s", i, long)), Priority: new(int64(1)), Wants: new(1.0)})
	}
	if answer, err := doormanpb.NewCapacityClient(conn).GetCapacity(t.Context(), list); err != nil || len(answer.GetResponse()) != len(list.GetResource()) {
		t.Errorf("doorman: %d answers, %v", len(answer.GetResponse()), err)
	}
}

func TestDoormansClientsAreToldWhereTheyAre(t *testing.T) {
	c := config(t)
	c.EdgeAddress = "edge.example:7934"
	d := start(t, c)
	// start's own address is not one to dial here.
	conn := dial(t, d.edge.Addr().String())
	r, err := doormanpb.NewCapacityClient(conn).Discovery(t.Context(), &doormanpb.DiscoveryRequest{})
	if err != nil || !r.GetIsMaster() || r.GetMastership().GetMasterAddress() != c.EdgeAddress {
		t.Errorf("%v, %v", r, err)
	}
}

// endless is a call under way that ends with ctx, and not by itself.
func endless(t *testing.T, ctx context.Context, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, grpc_health_v1.Health_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// The server has begun the call once it answers a later one on the same connection.
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	return call
}

func TestStopLetsCallsEndAndIsBounded(t *testing.T) {
	promptly(t, func() time.Duration { return stopWithCalls(t) })
}

func stopWithCalls(t *testing.T) (took time.Duration) {
	t.Helper()
	c := config(t)
	c.Drain = 300 * time.Millisecond
	log, logged := recording()
	d, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", d.Edge()) // never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	call := endless(t, t.Context(), dial(t, d.Edge()))
	began := time.Now()
	// That a call never ends by itself is no failure.
	if err := d.Stop(context.Background()); err != nil || !strings.Contains(logged(), "calls to the edge did not end in time") {
		t.Errorf("stop: %v, logged:\n%s", err, logged())
	}
	if took = time.Since(began); took < c.Drain {
		t.Errorf("stopping took %v", took)
	}
	if err := call.RecvMsg(new(grpc_health_v1.HealthCheckResponse)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the call goes on: %v", err)
	}
	if conn, err := net.Dial("tcp", d.Edge()); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
	return took
}

func TestOneConnectionTooManyIsClosed(t *testing.T) {
	c := config(t)
	c.MaxConnections = 2
	d := start(t, c)
	var conns []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", d.Edge())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	// The server greets the first two with its settings.
	for i, conn := range conns {
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
				t.Fatal(err)
			}
		}
		n, err := conn.Read(make([]byte, 1))
		if (n == 1) != (i < 2) {
			t.Errorf("connection %d: %d bytes, %v", i+1, n, err)
		}
	}
	if got := d.edge.Refused(); got != 1 {
		t.Errorf("%d refused", got)
	}
	conns[0].Close()
	client, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eventually(t, "there is room again", func() bool { _, err := ask(t, client, "me"); return err == nil })
}

// eventually waits for a condition, not for a time.
var eventually = waittest.Until

func TestMistakesAreToldAndLeaveNothingBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tc := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"cluster port taken", func(c *Config) { c.Listen = taken.Addr().String() }, "listen for other deciders: listen tcp " + taken.Addr().String() + ": bind: address already in use: another program listens there, so choose another address with --listen"},
		{"no such port", func(c *Config) { c.Listen = "127.0.0.1:99999" }, `listen "127.0.0.1:99999": there is no port 99999: use 1 to 65535`},
		{"a seed without a port", func(c *Config) { c.Gossip.Seeds = []string{"10.0.0.1"} }, `"10.0.0.1" is not host:port as others dial it: write it as in 10.0.0.7:7946`},
		{"Redis without a port", func(c *Config) { c.Redis.Addresses = []string{"10.0.0.1"} }, "write it as in 10.0.0.7:6379"},
		{"no folder for the Unix socket", func(c *Config) { c.Unix = filepath.Join(t.TempDir(), "gone", "s") }, "gone, first"},
		{"an address of another machine", func(c *Config) { c.Listen = "192.0.2.1:0" }, "this machine does not have the address, so give --listen one that it has, or none, as in :7933"},
		{"edge port taken", func(c *Config) { c.Edge = taken.Addr().String() }, "listen for programs at the edge: listen tcp " + taken.Addr().String()},
		{"no limits", func(c *Config) { c.Limits = "" }, "no limits: name a file with --limits"},
		{"no such database", func(c *Config) { c.Limits, c.LimitsDB = "", "mysql://h/db" }, "mysql:// is no database of limits"},
		{"a password of limits", func(c *Config) { c.Limits, c.LimitsDB = "", "postgres://u:p@h/db" }, "put it into ~/.pgpass or PGPASSWORD"},
		{"limits twice", func(c *Config) { c.LimitsDB = "db" }, "a file of limits is given, and a database: choose one"},
		{"limits gone", func(c *Config) { c.Limits += ".gone" }, "config file is missing: stat "},
		{"limits broken", func(c *Config) { c.Limits = write(t, "broken.yaml", "limits:\n  - {key: k, limit: 3 apples}\n") }, "limits: broken.yaml:2:"},
		{"no such algorithm", func(c *Config) {
			c.Limits = write(t, "l.yaml", "limits:\n  - {key: k, limit: 3/s, algorithm: magic}\n")
		}, "magic"},
		{"not a member", func(c *Config) { c.Members = []string{"10.0.0.1:7933"} }, "is not among the members 10.0.0.1:7933"},
		{"a member that is none", func(c *Config) { c.Members = []string{"10.0.0.1"} }, `"10.0.0.1" is not host:port`},
		{"a member with a label", func(c *Config) { c.Members = []string{"10.0.0.1:7933 zone=a"} }, `"10.0.0.1:7933 zone=a" is not host:port`},
		{"a member with no such port", func(c *Config) { c.Members = []string{"10.0.0.1:nope"} }, "there is no port nope"},
		{"a member twice", func(c *Config) { c.Address = "h:1"; c.Members = []string{"h:1", "h:1"} }, "more than once"},
		{"two lists", func(c *Config) { c.Members = []string{"h:1"}; c.MembersFile = "x" }, "choose one"},
		{"no such list", func(c *Config) { c.MembersFile = "nowhere/members.txt" }, "members: stat nowhere/members.txt"},
		{"a broken list", func(c *Config) { c.MembersFile = write(t, "m.txt", "# all\n10.0.0.1:7933\nhere\n") }, `m.txt:3: address "here" is not host:port: write it as in 10.0.0.7:7933, one in a line`},
		{"everywhere", func(c *Config) { c.Listen = ":0" }, "say the one that others dial"},
		{"nowhere", func(c *Config) { c.Address = "0.0.0.0:7" }, `"0.0.0.0:7" is no host that others can dial`},
		{"no port", func(c *Config) { c.Edge = "h" }, `edge "h" is not host:port`},
		{"numbers", func(c *Config) { c.MaxConnections, c.Drain = -1, -1 }, "-1 connections"},
	} {
		c := config(t)
		tc.change(&c)
		d, err := Start(t.Context(), c, quiet)
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			if err := d.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v does not say %s", tc.name, err, tc.want)
		}
		if _, ok := errors.AsType[*dynamicconfig.Error](err); ok != (tc.name == "limits broken" || tc.name == "no such algorithm") {
			t.Errorf("%s: a problem of the limits: %v", tc.name, ok)
		}
	}
}

func TestStartEndsWithItsContextAndFreesThePorts(t *testing.T) {
	c := config(t)
	c.MembersFile = write(t, "members.txt", "# no host yet\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, c, quiet); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "first list of members") {
		t.Errorf("%v", err)
	}
}

// notes are what one goroutine writes and another takes.
type notes struct {
	mu   sync.Mutex // protects following fields
	text bytes.Buffer
}

func (n *notes) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.text.Write(text)
}

// take returns what was written since the last take.
func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()

	defer n.text.Reset()
	return n.text.String()
}

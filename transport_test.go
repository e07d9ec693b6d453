// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uber-go/tally/v4"
	"go.uber.org/yarpc"
	"go.uber.org/yarpc/api/middleware"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/transport/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

var quiet = headgate.WithLogger(slog.New(slog.DiscardHandler))

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startNode runs a Node at address until the test ends.
func startNode(t *testing.T, address, text string, members ringpop.Members, opts ...headgate.Option) *headgate.Node {
	t.Helper()
	n, err := headgate.New(headgate.Config{Address: address}, memory.New(limits(t, text)), members, append(opts, quiet)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// membersAt are hosts at the addresses of listeners.
func membersAt(t *testing.T, listeners ...net.Listener) *static.Members {
	t.Helper()
	var hosts []ringpop.Host
	for _, l := range listeners {
		hosts = append(hosts, ringpop.Host{Address: l.Addr().String()})
	}
	members, err := static.New(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// Each key has a grant on each node, so each node reaches the other.
const fourKeys = `
defaults: {update_interval: 100ms, algorithm: request-weighted}
limits: [{key: "k*", limit: 1000/s}]
`

// keysByOwner returns one of fourKeys' keys for each owner.
func keysByOwner(n *headgate.Node) map[string]string {
	keys := make(map[string]string)
	for i := 0; len(keys) < n.Ring().Len(); i++ {
		key := "k" + strings.Repeat("x", i)
		keys[n.Ring().Owner(key)] = key
	}
	return keys
}

func allHaveGrants(t *testing.T, nodes ...*headgate.Node) {
	t.Helper()
	for owner, key := range keysByOwner(nodes[0]) {
		for _, n := range nodes {
			eventually(t, n.Address()+" has a grant of "+owner, func() bool { n.For(key).Allow(); return !share(n, key).Fallback })
		}
	}
}

// serviceDispatcher is a service's own dispatcher, with its own TLS and
// middleware.
func serviceDispatcher(l net.Listener, calls *atomic.Int64) (*yarpc.Dispatcher, *rpcyarpc.Chooser) {
	t := grpc.NewTransport()
	chooser := rpcyarpc.NewChooser(t.NewDialer())
	return yarpc.NewDispatcher(yarpc.Config{
		Name:     "orders",
		Inbounds: yarpc.Inbounds{t.NewInbound(l)},
		Outbounds: yarpc.Outbounds{
			"headgate": {ServiceName: "orders", Unary: t.NewOutbound(chooser)},
		},
		InboundMiddleware: yarpc.InboundMiddleware{Unary: middleware.UnaryInboundFunc(
			func(ctx context.Context, request *transport.Request, w transport.ResponseWriter, next transport.UnaryHandler) error {
				calls.Add(1)
				return next.Handle(ctx, request, w)
			})},
	}), chooser
}

func TestServicesFormAClusterByTheirOwnDispatchers(t *testing.T) {
	listeners := []net.Listener{listen(t), listen(t)}
	var calls [2]atomic.Int64
	var nodes []*headgate.Node
	for i, l := range listeners {
		dispatcher, chooser := serviceDispatcher(l, &calls[i])
		hosts, err := rpcyarpc.OnDispatcher(dispatcher, "headgate", chooser, nil)
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
		nodes = append(nodes, startNode(t, l.Addr().String(), fourKeys, membersAt(t, listeners...), headgate.WithTransport(hosts)))
	}
	allHaveGrants(t, nodes...)
	for i := range calls {
		if calls[i].Load() == 0 {
			t.Errorf("service %d's middleware saw no call", i)
		}
	}
	// The dispatcher outlives the Node, and answers nobody for it.
	key := keysByOwner(nodes[0])[nodes[1].Address()]
	if err := nodes[1].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := calls[1].Load()
	eventually(t, "a stopped node is asked", func() bool { nodes[0].For(key).Allow(); return calls[1].Load() > before+1 })
	if _, err := rpcyarpc.OnDispatcher(yarpc.NewDispatcher(yarpc.Config{Name: "empty"}), "headgate", rpcyarpc.NewChooser(grpc.NewTransport()), nil); err == nil {
		t.Error("an outbound that is not there passes")
	}
}

// tlsOf is a host's: one config for both sides.
func tlsOf(t *testing.T, ca *certtest.Authority) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: ca.Pool(),
		Certificates: []tls.Certificate{ca.Issue(t, "host", certtest.Loopback)},
	}
}

func TestAClusterWithTLSRefusesHostsWithout(t *testing.T) {
	ca := certtest.New(t)
	trusted, foreign := tlsOf(t, ca), tlsOf(t, certtest.New(t))
	foreign.RootCAs = ca.Pool() // it trusts the others, and they do not trust it
	listeners := []net.Listener{listen(t), listen(t), listen(t), listen(t)}
	members := membersAt(t, listeners...)
	start := func(i int, opts ...headgate.Option) *headgate.Node {
		return startNode(t, listeners[i].Addr().String(), fourKeys, members, append(opts, headgate.WithListen(listeners[i]))...)
	}
	a, b := start(0, headgate.WithTLS(trusted)), start(1, headgate.WithTLS(trusted))
	scopes := []tally.TestScope{tally.NewTestScope("", nil), tally.NewTestScope("", nil)}
	outside := []*headgate.Node{
		start(2, headgate.WithScope(scopes[0])),
		start(3, headgate.WithScope(scopes[1]), headgate.WithTLS(foreign)),
	}
	keys := keysByOwner(a)
	for _, owner := range []*headgate.Node{a, b} {
		key := keys[owner.Address()]
		for _, n := range []*headgate.Node{a, b} {
			eventually(t, "a host with TLS has a grant", func() bool { n.For(key).Allow(); return !share(n, key).Fallback })
		}
		for i, n := range outside {
			unanswered := func() int64 { return counters(scopes[i])["headgate.limiter.updates_unanswered+"] }
			before := unanswered()
			eventually(t, "three reports were refused", func() bool { n.For(key).Allow(); return unanswered() >= before+3 })
			if !share(n, key).Fallback {
				t.Errorf("outsider %d has a grant", i)
			}
		}
	}
}

// WithTLS says what a certificate is compared with: the address that is dialled, and
// not the name of the host that reports.
func TestACertificateIsForTheAddressThatIsDialled(t *testing.T) {
	ca := certtest.New(t)
	elsewhere := tlsOf(t, ca)
	elsewhere.Certificates = []tls.Certificate{ca.Issue(t, "elsewhere")}
	listeners := []net.Listener{listen(t), listen(t)}
	members, scope := membersAt(t, listeners...), tally.NewTestScope("", nil)
	start := func(i int, config *tls.Config, opts ...headgate.Option) *headgate.Node {
		return startNode(t, listeners[i].Addr().String(), fourKeys, members, append(opts, headgate.WithListen(listeners[i]), headgate.WithTLS(config))...)
	}
	a, b := start(0, tlsOf(t, ca), headgate.WithScope(scope)), start(1, elsewhere)
	keys := keysByOwner(a)
	unanswered := func() int64 { return counters(scope)["headgate.limiter.updates_unanswered+"] }
	eventually(t, "three reports to a host with a certificate for elsewhere failed", func() bool {
		a.For(keys[b.Address()]).Allow()
		return unanswered() >= 3
	})
	if !share(a, keys[b.Address()]).Fallback {
		t.Error("a host with a certificate for elsewhere gave a grant")
	}
	eventually(t, "that host has a grant itself", func() bool {
		b.For(keys[a.Address()]).Allow()
		return !share(b, keys[a.Address()]).Fallback
	})
}

// Of several ways to encrypt, the last one counts, on both sides.
func TestTheLastWayToEncryptCounts(t *testing.T) {
	ca := certtest.New(t)
	trusted, foreign := tlsOf(t, ca), tlsOf(t, certtest.New(t))
	rotating := func(config *tls.Config) headgate.Option {
		return headgate.WithRotatingTLS(func() *tls.Config { return config })
	}
	listeners := []net.Listener{listen(t), listen(t)}
	members := membersAt(t, listeners...)
	start := func(i int, opts ...headgate.Option) *headgate.Node {
		return startNode(t, listeners[i].Addr().String(), fourKeys, members, append(opts, headgate.WithListen(listeners[i]))...)
	}
	a, b := start(0, rotating(foreign), headgate.WithTLS(trusted)), start(1, headgate.WithTLS(foreign), rotating(trusted))
	keys := keysByOwner(a)
	for n, key := range map[*headgate.Node]string{a: keys[b.Address()], b: keys[a.Address()]} {
		eventually(t, "the other host gave a grant", func() bool { n.For(key).Allow(); return !share(n, key).Fallback })
	}
}

// counters are by name and tags.
func counters(scope tally.TestScope) map[string]int64 {
	all := make(map[string]int64)
	for name, c := range scope.Snapshot().Counters() {
		all[name] = c.Value()
	}
	return all
}

func TestOptionsThatContradictAreRefused(t *testing.T) {
	l := listen(t)
	defer l.Close()
	ca := certtest.New(t)
	for want, opts := range map[string][]headgate.Option{
		"needs a certificate":   {headgate.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13})},
		"needs the authority":   {headgate.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: tlsOf(t, ca).Certificates})},
		"trusts any host":       {headgate.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool(), Certificates: tlsOf(t, ca).Certificates, InsecureSkipVerify: true})},
		"remove WithListen":     {headgate.WithListen(l), headgate.WithTransport(new(rpcyarpc.Standalone))},
		"WithTLS":               {headgate.WithTLS(tlsOf(t, ca)), headgate.WithTransport(new(rpcyarpc.Standalone))},
		"needs a name for":      {headgate.WithParent("", nil)},
		"name of an algorithm":  {headgate.WithRemote("", nil)},
		"remote r is nil":       {headgate.WithRemote("r", nil)},
		"a name and a function": {headgate.WithAlgorithm("", nil)},
	} {
		_, err := headgate.New(headgate.Config{Address: "127.0.0.1:1"}, memory.New(limits(t, fourKeys)), membersAt(t, l), opts...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestStartSaysThatItsAddressIsTaken(t *testing.T) {
	l := listen(t)
	defer l.Close()
	n, err := headgate.New(headgate.Config{Address: l.Addr().String()}, memory.New(limits(t, fourKeys)), membersAt(t, l), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "serve other hosts") {
		t.Errorf("started at a taken address: %v", err)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := n.Claimant().Peers.Peer("127.0.0.1:1"); !errors.Is(err, rpcyarpc.ErrClosed) {
		t.Errorf("a node that does not run calls others: %v", err)
	}
}

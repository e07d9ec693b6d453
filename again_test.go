// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
)

// late is a Transport to no other host that does not start the first time, as if its address
// were in use.
type late struct{ starts int }

func (*late) Peer(string) (rpc.Decider, error) { return nil, rpc.ErrNoOwner }
func (*late) Keep([]string) error              { return nil }
func (*late) Stop(context.Context) error       { return nil }
func (l *late) Start(context.Context, rpc.Decider) error {
	if l.starts++; l.starts == 1 {
		return errors.New("the address is in use")
	}
	return nil
}

// over is a Node that no other host reaches, over transport.
func over(t *testing.T, transport headgate.Transport) *headgate.Node {
	t.Helper()
	const address = "127.0.0.1:7933" // no process listens there
	members, err := static.New(ringpop.Host{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	n, err := headgate.New(headgate.Config{Address: address}, memory.New(limits(t, "limits: []")), members, headgate.WithTransport(transport), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// elsewhere is a Transport to no other host, at an address of another machine.
type elsewhere struct{ late }

func (*elsewhere) Start(context.Context, rpc.Decider) error {
	return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}
}

// The error of an address where this host cannot listen says what to do.
func TestStartSaysWhatToDoAboutItsAddress(t *testing.T) {
	taken := listen(t)
	defer func() { _ = taken.Close() }()
	n, err := headgate.New(headgate.Config{Address: taken.Addr().String()}, memory.New(limits(t, "limits: []")), membersAt(t, taken), quiet)
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]*headgate.Node{
		"another program listens there, such as an earlier process of this service: stop it, or choose another address": n,
		"this machine does not have the address: set Config.Listen to one that it has":                                  over(t, new(elsewhere)),
	} {
		if err := n.Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestANodeStartsAgainIfItsTransportDidNot(t *testing.T) {
	n := over(t, new(late))
	if err := n.Start(t.Context()); err == nil || errors.Is(err, headgate.ErrStarted) {
		t.Errorf("the first time: %v", err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, headgate.ErrStarted) {
		t.Errorf("once it has started: %v", err)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, headgate.ErrStarted) {
		t.Errorf("after Stop: %v", err)
	}
}

func TestANodeThatWasStoppedDoesNotStart(t *testing.T) {
	n := over(t, new(late))
	if err := n.Start(t.Context()); err == nil {
		t.Fatal("the transport started")
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, headgate.ErrStarted) {
		t.Errorf("after a Stop before it had started: %v", err)
	}
}

func TestAddressesThatNobodyCanCallAreRefused(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.7":        "is not host:port",
		"10.0.0.7:":       "is not host:port",
		" 10.0.0.7:7933":  "is not host:port",
		"10.0.0.7:7933\r": "is not host:port",
		"10.0.0.7:79330":  "has no port from 0 to 65535",
		"10.0.0.7:-1":     "has no port from 0 to 65535",
		"10.0.0.7:port":   "has no port from 0 to 65535",
		"10.0.0.7:0":      "is not one that other hosts can call",
		":7933":           "is not one that other hosts can call",
		"0.0.0.0:7933":    "is not one that other hosts can call",
		"[::]:7933":       "is not one that other hosts can call",
		"[fd00::7]:7933":  "",
		"host-7:7933":     "",
	} {
		err := headgate.Config{Address: address}.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
	for listen, good := range map[string]bool{":7933": true, "0.0.0.0:0": true, "10.0.0.7": false, ":79330": false, ":7933 ": false} {
		if err := (headgate.Config{Address: "10.0.0.7:7933", Listen: listen}).Validate(); (err == nil) != good {
			t.Errorf("listen %q: %v", listen, err)
		}
	}
}

// unwatched are Members that fail twice: no host can call an address of their list, and then their Watch ends with an error.
type unwatched struct{}

func (unwatched) Watch(_ context.Context, update func([]ringpop.Host)) error {
	update([]ringpop.Host{{Address: "nowhere"}})
	return errors.New("the list is gone")
}

// Start returns whatever the members do once its context has ended.
func TestStartReturnsAfterMembersThatFailTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, memory.New(limits(t, "limits: []")), unwatched{}, headgate.WithTransport(&late{starts: 1}), quiet)
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := n.Start(ended); err == nil {
			t.Error("it has started without members")
		}
	})
}

// Two options of which one would count for nothing are an error, and not a Node that listens elsewhere than it was told.
func TestAListenerIsStatedOnce(t *testing.T) {
	transport, l := headgate.WithTransport(&late{}), headgate.WithListen(listen(t))
	for name, tt := range map[string]struct {
		listen string
		opts   []headgate.Option
		works  bool
	}{
		"an address":                 {":7934", nil, true},
		"a listener":                 {"", []headgate.Option{l}, true},
		"a transport":                {"", []headgate.Option{transport}, true},
		"an address and a listener":  {":7934", []headgate.Option{l}, false},
		"an address and a transport": {":7934", []headgate.Option{transport}, false},
		"a listener and a transport": {"", []headgate.Option{l, transport}, false},
	} {
		members, err := static.New(ringpop.Host{Address: "127.0.0.1:7933"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = headgate.New(headgate.Config{Address: "127.0.0.1:7933", Listen: tt.listen}, memory.New(limits(t, "limits: []")), members, append(tt.opts, quiet)...)
		if (err == nil) != tt.works || err != nil && !strings.Contains(err.Error(), "remove") {
			t.Errorf("%s: New returns %v", name, err)
		}
	}
}

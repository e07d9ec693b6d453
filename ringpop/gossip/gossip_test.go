// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/ringpop"
)

// eventually waits for a condition, not for a time.
var eventually = waittest.Until

// node is one host of a test's cluster, and the ring that it sees.
type node struct {
	*Members

	ring atomic.Pointer[[]ringpop.Host]
	mu   sync.Mutex // protects log
	log  bytes.Buffer
}

func (n *node) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.log.Write(text)
}

func (n *node) logged() string {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.log.String()
}

// sees reports whether the ring is of these addresses.
func (n *node) sees(want string) bool {
	hosts := n.ring.Load()
	if hosts == nil {
		return false
	}
	var got []string
	for _, h := range *hosts {
		got = append(got, strings.TrimSuffix(h.Address, ":1"))
	}
	return strings.Join(got, " ") == want
}

// start runs the host with that name until the test ends. Seeds are nodes.
func start(t *testing.T, name string, change func(*Config), seeds ...*node) *node {
	t.Helper()
	n := new(node)
	c := Config{
		Cluster: "test", Host: ringpop.Host{Address: name + ":1"}, Listen: "127.0.0.1:0",
		Rejoin: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(n, nil)),
	}
	var at []string
	for _, s := range seeds {
		at = append(at, s.Address())
	}
	if len(at) > 0 {
		c.Seeds = List(at...)
	}
	if change != nil {
		change(&c)
	}
	var err error
	if n.Members, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- n.Watch(watching, func(hosts []ringpop.Host) { n.ring.Store(&hosts) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s logged:\n%s", name, n.logged())
		}
	})
	return n
}

func TestHostsFindEachOtherLeaveAndDie(t *testing.T) {
	t.Parallel()
	a := start(t, "a", func(c *Config) { c.Host.Labels = "zone=z1"; c.Host.Identity = "first" })
	b := start(t, "b", nil, a)
	c := start(t, "c", nil, a)
	edge := start(t, "edge", func(c *Config) { c.Observer = true }, b)
	all := []*node{a, b, c, edge}
	see := func(what, want string, nodes ...*node) {
		t.Helper()
		began := time.Now()
		for _, n := range nodes {
			eventually(t, what, func() bool { return n.sees(want) })
		}
		t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
	}
	see("all join", "a b c", all...)
	if h := (*c.ring.Load())[0]; h.Identity != "first" || h.LabelMap()["zone"] != "z1" {
		t.Errorf("what a says of itself arrives as %+v", h)
	}

	if err := c.Leave(); err != nil {
		t.Error(err)
	}
	see("one leaves", "a b", all...) // on its own ring too
	for _, s := range a.Standings() {
		if s.Host.Address == "c:1" && s.State != ringpop.Left {
			t.Errorf("a says of c: %+v", s)
		}
		if s.Host.Address == "edge:1" && s.State != ringpop.Observer {
			t.Errorf("a says of the observer: %+v", s)
		}
	}
	if strings.Contains(a.logged(), "does not answer") {
		t.Errorf("who leaves is taken for dead:\n%s", a.logged())
	}

	if err := b.Stop(); err != nil { // without a word
		t.Error(err)
	}
	see("one dies", "a", a, edge)
	if n := strings.Count(a.logged(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, a.logged())
	}
}

// Others have a host wait that they lost too often. It hears that when it joins, and is not on its own ring either until
// they have waited.
func TestAHostHearsThatItWaits(t *testing.T) {
	a := start(t, "a", nil)
	b := start(t, "b", nil, a)
	name := ringpop.Host{Address: "c:1"}
	for _, n := range []*node{a, b} {
		for range 3 { // lost, which takes a second each time
			n.board.Up(name, false)
			n.board.Down(name.Address, "lost")
		}
	}
	c := start(t, "c", nil, a, b)
	for _, n := range []*node{a, b, c} {
		eventually(t, "all have c wait", func() bool { return n.sees("a b") && len(n.Standings()) == 3 })
	}
	if s := c.Standings()[2]; s.State != ringpop.Held {
		t.Errorf("c takes itself for %v", s.State)
	}
	for _, n := range []*node{a, b, c} {
		eventually(t, "c is on all rings", func() bool { return n.sees("a b c") })
	}
}

// A host that is killed, and started again at once where it gossips at another address, is back as
// soon as the others have missed it: they need not wait until they happen to tell each other all.
func TestAHostIsBackAtAnotherGossipAddress(t *testing.T) {
	t.Parallel()
	a := start(t, "a", nil)
	b := start(t, "b", nil, a)
	c := start(t, "c", nil, a)
	for _, n := range []*node{a, b, c} {
		eventually(t, "all three are there", func() bool { return n.sees("a b c") })
	}
	if err := c.Stop(); err != nil { // without a word
		t.Fatal(err)
	}
	back := start(t, "c", nil, a)
	for _, n := range []*node{a, b} {
		eventually(t, "the host is back where it gossips now", func() bool {
			return n.sees("a b c") && slices.Contains(n.addresses(), back.Address())
		})
	}
}

// The same, where the others suspect the host already, and do not say that it gossips elsewhere.
func TestASuspectIsBackAtAnotherGossipAddress(t *testing.T) {
	t.Parallel()
	a := start(t, "a", nil)
	b := start(t, "b", nil, a)
	for _, n := range []*node{a, b} {
		eventually(t, "both are there", func() bool { return n.sees("a b") })
	}
	if err := b.Stop(); err != nil { // without a word
		t.Fatal(err)
	}
	eventually(t, "a suspects b", func() bool { return a.list.GetHealthScore() > 0 })
	back := start(t, "b", nil, a)
	eventually(t, "the host is back where it gossips now", func() bool {
		return a.sees("a b") && slices.Contains(a.addresses(), back.Address())
	})
}

// A host whose seed does not answer waits for that one. Others that join it meanwhile do not have it own keys before it
// serves them, and then it need not wait any more.
func TestAHostThatStartsOwnsNoKeys(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	at := addresstest.Free(t, 1)[0]
	m, err := New(Config{
		Cluster: "test", Host: ringpop.Host{Address: "a:1"}, Listen: at, JoinWithin: time.Hour,
		Seeds: List(silent.Addr().String()), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- m.Start(t.Context()) }()
	conn, err := silent.Accept() // it asks its seed
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := start(t, "b", func(c *Config) { c.Seeds = List(at) })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "b knows a", func() bool { return len(b.Standings()) == 2 })
	if s := b.Standings()[0]; s.State != ringpop.Observer || !b.sees("b") {
		t.Errorf("b takes a host that starts for %v", s.State)
	}
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = m.Watch(watching, func([]ringpop.Host) {}) }()
	eventually(t, "a owns keys", func() bool { return b.sees("a b") })
}

func TestTheWayBackIsFound(t *testing.T) {
	t.Parallel()
	a := start(t, "a", nil)
	var cut atomic.Bool
	cut.Store(true)
	b := start(t, "b", func(c *Config) {
		c.JoinWithin = time.Millisecond
		c.Seeds = func(context.Context) ([]string, error) {
			if cut.Load() {
				return nil, fmt.Errorf("no way")
			}
			return []string{a.Address()}, nil
		}
	})
	c := start(t, "c", nil, b)
	for _, n := range []*node{b, c} {
		eventually(t, "the others are together", func() bool { return n.sees("b c") })
	}
	if !strings.Contains(b.logged(), "begins alone") {
		t.Errorf("that no seed answers is not logged:\n%s", b.logged())
	}
	cut.Store(false)
	for _, n := range []*node{a, b, c} {
		eventually(t, "all are together", func() bool { return n.sees("a b c") })
	}
}

// keyFile is a file of keys, made of their first letters.
func keyFile(t *testing.T, letters string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, letters)
	return path
}

func writeKeys(t *testing.T, path, letters string) {
	t.Helper()
	text := "# the primary key is first\n"
	for _, l := range letters {
		text += strings.Repeat(string(l), 43) + "=\n"
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestOtherClustersAndKeysStayApart(t *testing.T) {
	t.Parallel()
	keyed := func(letters string) func(*Config) {
		return func(c *Config) { c.KeyFile = keyFile(t, letters); c.JoinWithin = 500 * time.Millisecond }
	}
	a := start(t, "a", keyed("A"))
	for name, change := range map[string]func(*Config){
		"another cluster": func(c *Config) { keyed("A")(c); c.Cluster = "other" },
		"another key":     keyed("B"),
		"no key":          func(c *Config) { c.JoinWithin = 500 * time.Millisecond },
	} {
		b := start(t, "b", change, a)
		eventually(t, "it is alone", func() bool { return b.sees("b") })
		if !strings.Contains(b.logged(), "begins alone") || len(a.Standings()) != 1 || len(b.Standings()) != 1 {
			t.Errorf("%s: %v and %v, logged:\n%s", name, a.Standings(), b.Standings(), b.logged())
		}
	}
	b := start(t, "b", keyed("CA"), a) // it may know more keys, but a must know its first
	if !strings.Contains(b.logged(), "begins alone") {
		t.Error("a host joins whose first key the others do not know")
	}
}

func TestKeysChangeWhileHostsRun(t *testing.T) {
	t.Parallel()
	files := []string{keyFile(t, "A"), keyFile(t, "A")}
	a := start(t, "a", func(c *Config) { c.KeyFile = files[0] })
	b := start(t, "b", func(c *Config) { c.KeyFile = files[1] }, a)
	for _, letters := range []string{"AB", "BA", "BCA", "B"} {
		for i, n := range []*node{a, b} {
			before := strings.Count(n.logged(), "keys changed")
			writeKeys(t, files[i], letters)
			eventually(t, letters, func() bool { return strings.Count(n.logged(), "keys changed") > before })
		}
	}
	writeKeys(t, files[0], "")
	eventually(t, "a broken file is reported", func() bool { return strings.Contains(a.logged(), "last good ones stay") })
	c := start(t, "c", func(c *Config) { c.KeyFile = keyFile(t, "B") }, a)
	for _, n := range []*node{a, b, c} {
		eventually(t, "all have the new key", func() bool { return n.sees("a b c") })
	}
	if n := strings.Count(a.logged(), "keys changed"); n != 4 {
		t.Errorf("keys changed %d times, want 4", n)
	}
}

func TestConfigSaysWhatToDo(t *testing.T) {
	good := Config{Cluster: "c", Host: ringpop.Host{Address: "10.0.0.7:7933"}, Listen: ":7946"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"give all hosts one name": func(c *Config) { c.Cluster = "" },
		"no host that others":     func(c *Config) { c.Host.Address = "0.0.0.0:7933" },
		"this host's address":     func(c *Config) { c.Host.Address = "" },
		"as in 10.0.0.7:7946":     func(c *Config) { c.Listen = "7946" },
		"advertise":               func(c *Config) { c.Advertise = ":7946" },
		"at most 255":             func(c *Config) { c.Host.Labels = strings.Repeat("x", 256) },
		"negative":                func(c *Config) { c.Rejoin = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good.KeyFile = keyFile(t, "")
	if _, err := New(good); err == nil || !strings.Contains(err.Error(), "openssl rand") {
		t.Errorf("a file without keys: %v", err)
	}
	good.KeyFile, good.Host.Address, good.Listen = "", "nowhere.invalid:1", ":0"
	m, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "does not resolve") {
		t.Errorf("an address that does not resolve: %v", err)
	}
}

// A host that did not come as far as Start has nothing to tell.
func TestNothingLeavesBeforeItStarts(t *testing.T) {
	m, err := New(Config{Cluster: "c", Host: ringpop.Host{Address: "127.0.0.1:1"}, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Leave(); err != nil {
		t.Error(err)
	}
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
}

// A host that anybody names in any way costs a short line, and is not on the ring.
func TestALongNameIsNotOnTheRing(t *testing.T) {
	log := new(bytes.Buffer)
	m, err := New(Config{Cluster: "c", Host: ringpop.Host{Address: "127.0.0.1:1"}, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	said, err := meta{}.encode()
	if err != nil {
		t.Fatal(err)
	}
	long := &memberlist.Node{Name: strings.Repeat("n", 60_000) + ":1", Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: said}
	d := (*delegate)(m)
	d.NotifyJoin(long)
	d.NotifyUpdate(long)
	d.NotifyConflict(long, long)
	d.NotifyLeave(long)
	if log.Len() > 2000 || len(m.Standings()) != 0 {
		t.Errorf("%d members, %d bytes: %.300s", len(m.Standings()), log.Len(), log)
	}
	d.NotifyJoin(&memberlist.Node{Name: strings.Repeat("n", 253) + ":65535", Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: said})
	if len(m.Standings()) != 1 {
		t.Errorf("a name of 253 bytes is refused: %.2000s", log)
	}
}

// A Node refuses a list with an address that no host can call, or with labels that mean nothing. So a host that
// says such things of itself is not on the list, and has no Members.
func TestAHostThatNoListMayHaveIsNotOnTheRing(t *testing.T) {
	for _, h := range []ringpop.Host{{Address: "b:79333"}, {Address: "b:http-of-nobody"}, {Address: "b c:1"}, {Address: "b:1", Labels: "zone:a"}} {
		log := new(bytes.Buffer)
		m, err := New(Config{Cluster: "c", Host: ringpop.Host{Address: "127.0.0.1:1"}, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		said, err := meta{Labels: h.Labels}.encode()
		if err != nil {
			t.Fatal(err)
		}
		(*delegate)(m).NotifyJoin(&memberlist.Node{Name: h.Address, Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: said})
		if len(m.Standings()) != 0 || !strings.Contains(log.String(), "is not on the ring") {
			t.Errorf("%+v is on the ring: %s", h, log)
		}
		if _, err := New(Config{Cluster: "c", Host: h, Listen: "127.0.0.1:0"}); err == nil {
			t.Errorf("%+v may join", h)
		}
	}
}

// What strangers send is bounded, also if they know the cluster's name, and others join
// meanwhile.
func TestStrangersSendLittle(t *testing.T) {
	keyed := func(c *Config) { c.KeyFile = keyFile(t, "A") }
	first := start(t, "a", keyed)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	stranger := func() net.Conn {
		conn, err := dialer.DialContext(t.Context(), "tcp", first.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetWriteBuffer(1 << 16) // so that what is written has been sent
		// Of this cluster, encrypted, with 20 MiB.
		_, _ = conn.Write(append([]byte("\xf4\x04test\x0a"), 0x01, 0x40, 0, 0))
		return conn
	}
	conn, sent := stranger(), 0
	for piece := make([]byte, 1<<16); sent < 20<<20; sent += len(piece) {
		if _, err := conn.Write(piece); err != nil {
			break
		}
	}
	if sent > maxStream+8<<20 { // and what is in sockets
		t.Errorf("a stranger sent %d bytes", sent)
	}
	for range 2 * maxStreams {
		stranger()
	}
	second := start(t, "b", keyed, first)
	waittest.Until(t, "a host joins meanwhile", func() bool { return len(first.Standings()) == 2 && len(second.Standings()) == 2 })
}

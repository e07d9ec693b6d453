// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/ringpop"
)

// server is a DNS server on loopback.
type server struct {
	address string

	mu      sync.Mutex // protects the following
	records []string   // as in a zone file
	fails   bool
}

func (s *server) set(fails bool, records ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.fails, s.records = fails, records
}

func (s *server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()

	answer := new(dns.Msg)
	answer.SetReply(q)
	if s.fails {
		answer.Rcode = dns.RcodeServerFailure
	}
	for _, text := range s.records {
		r, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		if asked := q.Question[0]; !s.fails && r.Header().Name == asked.Name && r.Header().Rrtype == asked.Qtype {
			answer.Answer = append(answer.Answer, r)
		}
	}
	_ = w.WriteMsg(answer)
}

func newServer(t *testing.T) *server {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: conn.LocalAddr().String()}
	up := make(chan struct{})
	d := &dns.Server{PacketConn: conn, Handler: s, NotifyStartedFunc: func() { close(up) }}
	ended := make(chan error, 1)
	go func() { ended <- d.ActivateAndServe() }()
	<-up
	t.Cleanup(func() {
		if err := d.Shutdown(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return s
}

func (s *server) resolver() Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.address)
	}}
}

// notes are written by one goroutine and read by another.
type notes struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

func (n *notes) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.text.Write(text)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.text.String()
}

func TestTheHostsOfANameAreFollowed(t *testing.T) {
	for target, records := range map[string][3][]string{
		"dns:///headgate.test.:7933": {
			{"headgate.test. 1 IN A 10.0.0.2", "headgate.test. 1 IN A 10.0.0.1"},
			{"headgate.test. 1 IN A 10.0.0.1", "headgate.test. 1 IN AAAA fd00::1"},
		},
		"dns+srv:///_cluster._tcp.headgate.test.": {
			{
				"_cluster._tcp.headgate.test. 1 IN SRV 0 0 7933 a.headgate.test.", "a.headgate.test. 1 IN A 10.0.0.1",
				"_cluster._tcp.headgate.test. 1 IN SRV 0 0 7933 b.headgate.test.", "b.headgate.test. 1 IN A 10.0.0.2",
			},
			{
				"_cluster._tcp.headgate.test. 1 IN SRV 0 0 7933 a.headgate.test.", "a.headgate.test. 1 IN A 10.0.0.1",
				"_cluster._tcp.headgate.test. 1 IN SRV 0 0 7933 b.headgate.test.", "b.headgate.test. 1 IN AAAA fd00::1",
			},
			// A target without an address: half a list is none.
			{"_cluster._tcp.headgate.test. 1 IN SRV 0 0 7933 a.headgate.test."},
		},
	} {
		s, log, seen := newServer(t), new(notes), new(notes)
		m, err := New(target, Config{Resolver: s.resolver(), Interval: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- m.Watch(ctx, func(hosts []ringpop.Host) {
				for _, h := range hosts {
					_, _ = seen.Write([]byte(h.Address + " "))
				}
				_, _ = seen.Write([]byte("\n"))
			})
		}()
		waittest.Until(t, "no record is reported", func() bool { return strings.Contains(log.String(), "last good list stays") })
		want := "10.0.0.1:7933 10.0.0.2:7933 \n"
		s.set(false, records[0]...)
		waittest.Until(t, "both are seen", func() bool { return seen.String() == want })
		s.set(true)
		before := strings.Count(log.String(), "level=ERROR")
		waittest.Until(t, "a failure is reported", func() bool { return strings.Count(log.String(), "level=ERROR") > before })
		if half := records[2]; half != nil {
			s.set(false, half...)
			before := strings.Count(log.String(), "level=ERROR")
			waittest.Until(t, "half a list is reported", func() bool { return strings.Count(log.String(), "level=ERROR") > before })
		}
		want += "10.0.0.1:7933 [fd00::1]:7933 \n"
		s.set(false, records[1]...)
		waittest.Until(t, "another is seen", func() bool { return seen.String() == want })
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, target := range []string{"", "headgate:7933", "dns:///", "dns:///headgate", "dns:///headgate:x", "dns:///:7933", "dns:///h:0", "dns+srv:///", "dns+srv:///h:1"} {
		if _, err := New(target, Config{}); err == nil || !strings.Contains(err.Error(), "dns:///headgate") {
			t.Errorf("%q: %v", target, err)
		}
	}
	if !Is("dns:///a:1") || !Is("dns+srv:///a") || Is("a:1") {
		t.Error("names are not told from addresses")
	}
}

func FuzzTarget(f *testing.F) {
	f.Add("dns:///a:1")
	f.Add("dns+srv:///_a._tcp.b")
	f.Fuzz(func(t *testing.T, target string) {
		if m, err := New(target, Config{}); err == nil && (m.name == "" || !Is(target)) {
			t.Errorf("%q is taken for %q", target, m.name)
		}
	})
}

// The port is that of the addresses that hosts know themselves by, however it is written.
func TestAPortIsAsHostsWriteIt(t *testing.T) {
	s := newServer(t)
	s.set(false, "hosts.test. 0 IN A 10.0.0.1")
	m, err := New("dns:///hosts.test.:07933", Config{Resolver: s.resolver()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Lookup(t.Context()); err != nil || len(got) != 1 || got[0] != "10.0.0.1:7933" {
		t.Errorf("%v, %v", got, err)
	}
}

// A host at port 0 cannot be called, and a list without it would move its keys.
func TestARecordWithoutAPortIsAnError(t *testing.T) {
	s := newServer(t)
	s.set(false, "a.test. 0 IN A 10.0.0.1", "b.test. 0 IN A 10.0.0.2",
		"_cluster._tcp.test. 0 IN SRV 0 0 7933 a.test.", "_cluster._tcp.test. 0 IN SRV 0 0 0 b.test.")
	m, err := New("dns+srv:///_cluster._tcp.test.", Config{Resolver: s.resolver()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Lookup(t.Context()); err == nil || !strings.Contains(err.Error(), "b.test.") || !strings.Contains(err.Error(), "port 0") {
		t.Errorf("%v, %v", got, err)
	}
}

// slow is a Resolver of many records, of which each address takes a while.
type slow struct{ records int }

func (s slow) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	records := make([]*net.SRV, s.records)
	for i := range records {
		records[i] = &net.SRV{Target: strconv.Itoa(i), Port: 7933}
	}
	return "", records, nil
}

func (s slow) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(5 * time.Millisecond):
	}
	i, err := strconv.Atoi(host)
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}, err
}

// The addresses of a large cluster are looked up side by side: one after another, they
// would take longer than a lookup may.
func TestManyRecordsAreLookedUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 5_000
		m, err := New("dns+srv:///_cluster._tcp.test.", Config{Resolver: slow{hosts}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Lookup(t.Context()); err != nil || len(got) != hosts {
			t.Errorf("%d hosts, %v", len(got), err)
		}
	})
}

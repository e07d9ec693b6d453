// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/addresstest"
)

// island is a network namespace whose only way out is this process, which reads and
// writes the packets of its device. It is gone with this process, and with the processes in it.
type island struct {
	address string
	do      chan func() // what to do on the thread that is in the namespace
	device  *os.File
}

// newIsland makes an island whose address is that. It skips t where that is not allowed.
func newIsland(t *testing.T, address string) *island {
	t.Helper()
	is := &island{address: address, do: make(chan func())}
	made := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			is.device, err = device(address)
		}
		made <- err
		if err != nil {
			return
		}
		for f := range is.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		t.Skipf("!!! SKIPPED: no network namespace with a device of its own; run it as root: %v", err)
	}
	t.Cleanup(func() {
		close(is.do)
		_ = is.device.Close()
	})
	return is
}

// device makes the device of the namespace that this thread is in.
func device(address string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	const name = "out"
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(fmt.Errorf("make a device: %w", err), unix.Close(fd))
	}
	if err := configure(name, address); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// configure gives a device its address, and starts it and the loopback device.
func configure(name, address string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, set := range []struct {
		device string
		what   uint
		fill   func(r *unix.Ifreq) error
	}{
		{name, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(address).To4()) }},
		{name, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
		{"lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		request, err := unix.NewIfreq(set.device)
		if err == nil {
			err = set.fill(request)
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, set.what, request)
		}
		if err != nil {
			return fmt.Errorf("configure %s: %w", set.device, err)
		}
	}
	return nil
}

// start starts a process on the island.
func (is *island) start(cmd *exec.Cmd) error {
	started := make(chan error)
	is.do <- func() { started <- cmd.Start() }
	return <-started
}

// dial dials an address of the island, from there.
func (is *island) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	dialed := make(chan struct{})
	is.do <- func() {
		defer close(dialed)
		conn, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp4", address)
	}
	<-dialed
	return conn, err
}

// forward returns an address of this machine that leads to one of the island: the network
// between programs and daemons is always well.
func (is *island) forward(t *testing.T, port string) string {
	t.Helper()
	l, err := net.Listen("tcp", addresstest.Free(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	accepting(t, l, func(conn net.Conn) {
		defer conn.Close()
		there, err := is.dial(context.Background(), net.JoinHostPort(is.address, port))
		if err != nil {
			return
		}
		defer there.Close()
		go func() {
			defer there.Close()
			_, _ = io.Copy(there, conn)
		}()
		_, _ = io.Copy(conn, there)
	})
	return l.Addr().String()
}

// path is what happens to packets from one island to another.
type path struct {
	cut   bool
	loss  float64 // of all packets
	delay time.Duration
}

// sea is between islands.
type sea struct {
	islands []*island

	mu    sync.Mutex // protects paths
	paths map[[2]int]path
}

// newSea connects islands.
func newSea(t *testing.T, size int) *sea {
	t.Helper()
	s := &sea{paths: make(map[[2]int]path)}
	for i := range size {
		s.islands = append(s.islands, newIsland(t, fmt.Sprintf("10.77.0.%d", i+1)))
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for from := range s.islands {
		var ways []chan late
		for _, to := range s.islands {
			way := make(chan late, 10000)
			ways = append(ways, way)
			running.Go(func() {
				for p := range way {
					if wait := time.Until(p.due); wait > 0 {
						watch(wait)
					}
					_, _ = to.device.Write(p.packet)
				}
			})
		}
		running.Go(func() {
			defer func() {
				for _, way := range ways {
					close(way)
				}
			}()
			s.carry(from, ways)
		})
	}
	t.Cleanup(func() { // before the goroutines are waited for
		for _, is := range s.islands {
			_ = is.device.Close()
		}
	})
	return s
}

// late is a packet and when it arrives.
type late struct {
	due    time.Time
	packet []byte
}

// carry sends packets of an island on their ways.
func (s *sea) carry(from int, ways []chan late) {
	packet := make([]byte, 1<<16)
	for {
		n, err := s.islands[from].device.Read(packet)
		if err != nil {
			return
		}
		if n < 20 || packet[0]>>4 != 4 {
			continue
		}
		to := int(packet[19]) - 1
		if to < 0 || to >= len(s.islands) || to == from {
			continue
		}
		s.mu.Lock()
		p := s.paths[[2]int{from, to}]
		s.mu.Unlock()
		if p.cut || rand.Float64() < p.loss {
			continue
		}
		select {
		case ways[to] <- late{time.Now().Add(p.delay), slices.Clone(packet[:n])}:
		default: // a queue that is full loses packets
		}
	}
}

// set changes the paths from some islands to some others.
func (s *sea) set(p path, from, to []int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, a := range from {
		for _, b := range to {
			s.paths[[2]int{a, b}] = p
		}
	}
}

// newIslands starts daemons that gossip, each on an island.
func newIslands(t *testing.T, size int) (*memberCluster, *sea) {
	t.Helper()
	inTurn()
	s := newSea(t, size)
	c := &memberCluster{limits: filepath.Join(t.TempDir(), "limits.yaml")}
	write(t, c.limits, faultRules)
	for _, is := range s.islands {
		at := is.address
		c.nodes = append(c.nodes, &treeNode{t: t, cluster: at + ":7933", edge: is.forward(t, "7934"), begin: is.start, args: []string{
			"--limits", c.limits, "--edge", at + ":7934", "--admin", at + ":7936",
			"--seeds", s.islands[0].address + ":7946," + s.islands[1].address + ":7946",
		}})
		c.admins = append(c.admins, is.forward(t, "7936"))
	}
	for _, n := range c.nodes {
		n.start()
	}
	for i := range c.nodes {
		eventually(t, "all know each other", func() bool { return c.up(i) == size })
	}
	return c, s
}

// partition cuts one daemon off from the others.
func partition(t *testing.T) *findings {
	return apart(t, true, func(s *sea) {
		s.set(path{cut: true}, []int{2}, []int{0, 1})
		s.set(path{cut: true}, []int{0, 1}, []int{2})
	})
}

// partitionOneWay loses what one daemon sends to the others.
func partitionOneWay(t *testing.T) *findings {
	return apart(t, true, func(s *sea) { s.set(path{cut: true}, []int{2}, []int{0, 1}) })
}

// loss loses packets at random.
func loss(t *testing.T) *findings {
	return apart(t, false, func(s *sea) { s.set(path{loss: 0.3}, []int{0, 1, 2}, []int{0, 1, 2}) })
}

// latency delays each packet.
func latency(t *testing.T) *findings {
	return apart(t, false, func(s *sea) { s.set(path{delay: 500 * time.Millisecond}, []int{0, 1, 2}, []int{0, 1, 2}) })
}

// apart breaks the network between three daemons, and mends it. With alone, the last is cut
// off from the others.
func apart(t *testing.T, alone bool, breaks func(s *sea)) *findings {
	c, s := newIslands(t, 3)
	lost, rest := c.nodes[2], c.edges(2)
	all := through(t, rest)
	probed := c.owned(t, "x:probe", lost.cluster)
	decidedBy(t, all, probed)
	w := newWatching(t, c.edges(-1), append(c.limited(t, lost.cluster), c.limited(t, c.nodes[0].cluster)...), c.limits, nil)
	w.begin()
	breaks(s)
	var served time.Duration
	if alone {
		served = decidedBy(t, all, probed)
	}
	sides, unnoticed := 2., 0.
	if alone {
		sides, unnoticed = 4./3, 2 // seconds of the limit
	}
	watch(lasting(faultLease, 20*time.Second))
	// Each side may have a full bucket. The smaller one grants a third, once it has noticed.
	f := w.end(t, sides, 2*faultBurst+unnoticed*faultLimit)
	began := time.Now()
	s.set(path{}, []int{0, 1, 2}, []int{0, 1, 2})
	// A daemon that was lost and back more than twice is held for 30 s at most.
	for i := range c.nodes {
		for c.up(i) < len(c.nodes) && time.Since(began) < 45*time.Second {
			watch(50 * time.Millisecond)
		}
		eventually(t, "they are together again", func() bool { return c.up(i) == len(c.nodes) })
	}
	decidedBy(t, all, probed)
	healed := time.Since(began)
	f.failed = w.none(t, w.began, c.edges(-1))
	f.served = fmt.Sprintf("healed in %s", seconds(healed))
	if alone {
		f.served = seconds(served) + ", " + f.served
		if *strict && served > 2*time.Second {
			t.Errorf("another decides after %v, want 2 s", served)
		}
	}
	if *strict {
		watch(faultLease + time.Second)
		from := time.Now()
		watch(10 * time.Second)
		var after []string
		for _, key := range w.keys {
			part := w.admitted(key, from, time.Now(), nil) / faultLimit / time.Since(from).Seconds()
			after = append(after, fmt.Sprintf("%.2f", part))
			if part > 1.1 {
				t.Errorf("%s: %.2f of the limit after it was healed", key, part)
			}
		}
		slices.SortFunc(after, cmp.Compare[string])
		f.admitted += "; healed: " + strings.Join([]string{after[0], after[len(after)-1]}, " to ")
	}
	return f
}

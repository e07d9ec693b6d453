// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

// edges are those of c's daemons, but for one; -1: all.
func (c *memberCluster) edges(but int) (all []string) {
	for i, n := range c.nodes {
		if i != but {
			all = append(all, n.edge)
		}
	}
	return all
}

// limited are keys of the daemon at address.
func (c *memberCluster) limited(t *testing.T, address string) []string {
	t.Helper()
	return []string{c.owned(t, "k:", address), c.owned(t, "x:", address)}
}

// watchOwner begins to watch a cluster whose first node is about to fail. decided waits until another node
// decides a key of that node, and says how long it took.
func watchOwner(t *testing.T, c *memberCluster) (decided func() time.Duration, w *watching) {
	t.Helper()
	owner := c.nodes[0].cluster
	all, probed := through(t, c.edges(0)), c.owned(t, "x:probe", owner)
	decided = func() time.Duration { return decidedBy(t, all, probed) }
	decided()
	w = newWatching(t, c.edges(-1), append(c.limited(t, owner), c.limited(t, c.nodes[1].cluster)...), c.limits, nil)
	w.begin()
	return decided, w
}

// hang stops an owner for a time.
func hang(t *testing.T, long time.Duration) *findings {
	c := newMemberCluster(t, 3, true, faultRules, "--lame-duck", "0s")
	v, others := c.nodes[0], c.edges(0)
	decided, w := watchOwner(t, c)
	if err := v.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	served := decided()
	watch(lasting(2*time.Second, long))
	if err := v.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		eventually(t, "it is back", func() bool { return c.up(i) == len(c.nodes) })
	}
	watch(lasting(time.Second, faultLease))
	f := w.end(t, 1, 2*faultBurst)
	later := 2 * time.Second
	if !*strict {
		later = max(later, served)
	} else if served > 2*time.Second {
		t.Errorf("another decides after %v, want 2 s", served)
	}
	w.none(t, w.began.Add(later), others)
	missed, n := w.failed(w.began, time.Now(), others)
	hung, m := w.failed(w.began, time.Now(), []string{v.edge})
	f.failed = counted(len(missed), n) + "; at the one that hangs " + counted(len(hung), m)
	f.served = seconds(served)
	return f
}

// pause stops an owner for a second, in which it is not always missed.
func pause(t *testing.T) *findings {
	c := newMemberCluster(t, 3, true, faultRules)
	v, others := c.nodes[0], c.edges(0)
	all := through(t, others)
	probed := c.owned(t, "x:probe", v.cluster)
	w := newWatching(t, c.edges(-1), append(c.limited(t, v.cluster), c.limited(t, c.nodes[1].cluster)...), c.limits, nil)
	w.begin()
	stopped := 0
	for range int(lasting(1, 5)) {
		if err := v.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		watch(time.Second)
		if err := v.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		stopped++
		decidedBy(t, all, probed)
		watch(time.Second)
	}
	// Each time its keys may go to another owner, and back.
	f := w.end(t, 1, float64(2*stopped)*faultBurst)
	f.failed = w.none(t, w.began, others) + " at the others"
	return f
}

// restarts kills an owner, which starts again, several times: from the third time on, the others have it wait.
func restarts(t *testing.T) *findings {
	c := newMemberCluster(t, 3, true, faultRules)
	v, others := c.nodes[0], c.edges(0)
	decided, w := watchOwner(t, c)
	killed := 0
	for range int(lasting(3, 5)) {
		v.kill()
		killed++
		decided()
		watch(time.Second)
		v.start()
		watch(3 * time.Second)
	}
	for i := range c.nodes {
		eventually(t, "it is held, at all alike", func() bool { return c.up(i) == len(c.nodes)-1 })
	}
	status, text := fetch(t, http.MethodGet, "http://"+c.admins[0]+"/readyz", "")
	if status != http.StatusOK || !strings.Contains(text, "most others have lost this host too often") {
		t.Errorf("it says of itself: %d %s", status, text)
	}
	watch(lasting(time.Second, 5*time.Second))
	f := w.end(t, 1, float64(2*killed)*faultBurst)
	missed, n := w.failed(w.began, time.Now(), others)
	f.failed = counted(len(missed), n) + " at the others"
	return f
}

// badOwner adds a member to a cluster that gossips: serve answers where it should, if it
// answers, in the protocol.
func badOwner(t *testing.T, answers bool, serve func(t *testing.T, l net.Listener) (end func())) *findings {
	at := addresstest.Free(t, 2)
	c := newMemberCluster(t, 2, true, faultRules)
	edges := c.edges(-1)
	with := &memberCluster{nodes: append([]*treeNode{{cluster: at[0]}}, c.nodes...)}
	probed := with.owned(t, "x:probe", at[0])
	w := newWatching(t, edges, append(with.limited(t, at[0]), with.limited(t, c.nodes[0].cluster)...), c.limits, nil)
	l, err := net.Listen("tcp", at[0])
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	w.begin()
	c.impostor(t, at[0], at[1])
	served := time.Duration(0)
	if !answers {
		served = decidedBy(t, through(t, edges), probed)
	}
	watch(lasting(faultLease+time.Second, 20*time.Second))
	// Its keys had another owner before, and have it again if it does not answer.
	f := w.end(t, 1, 3*faultBurst)
	f.failed = w.none(t, w.began, edges)
	slow := w.slow(w.began, time.Now(), edges)
	f.served = fmt.Sprintf("by the rule's fallback; p99 of calls: %v", slow.Round(time.Millisecond))
	if !answers {
		f.served = fmt.Sprintf("%s; p99 of calls: %v", seconds(served), slow.Round(time.Millisecond))
		if *strict && served > 5*time.Second {
			t.Errorf("another decides after %v, want 5 s", served)
		}
	}
	if *strict && slow > 100*time.Millisecond {
		t.Errorf("calls took %v, want 40 ms and the machine's own", slow)
	}
	return f
}

// badListed has what serve does take the place of a daemon on a list.
func badListed(t *testing.T, serve func(t *testing.T, l net.Listener) (end func())) *findings {
	c := newMemberCluster(t, 3, false, faultRules)
	v, edges := c.nodes[0], c.edges(0)
	all := through(t, edges)
	probed := c.owned(t, "x:probe", v.cluster)
	decidedBy(t, all, probed)
	w := newWatching(t, edges, append(c.limited(t, v.cluster), c.limited(t, c.nodes[1].cluster)...), c.limits, nil)
	w.begin()
	v.kill()
	l, err := net.Listen("tcp", v.cluster)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	served := decidedBy(t, all, probed)
	watch(lasting(2*time.Second, 20*time.Second))
	f := w.end(t, 1, faultBurst)
	f.failed = w.none(t, w.began, edges)
	f.served = seconds(served)
	if *strict && served > 2*time.Second {
		t.Errorf("another decides after %v, want 2 s", served)
	}
	return f
}

// accepting has serve answer each connection to l, until end or the end of the test.
func accepting(t *testing.T, l net.Listener, serve func(conn net.Conn)) (end func()) {
	var running sync.WaitGroup
	var mu sync.Mutex // protects open
	var open []net.Conn
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() { serve(conn) })
		}
	})
	end = sync.OnceFunc(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	t.Cleanup(end)
	return end
}

// silent accepts, and never answers, until end or the end of the test.
func silent(t *testing.T, l net.Listener) (end func()) { return accepting(t, l, func(net.Conn) {}) }

// garbage answers with random bytes.
func garbage(t *testing.T, l net.Listener) (end func()) {
	return accepting(t, l, func(conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		random := rand.NewChaCha8([32]byte{1})
		part := make([]byte, 1000)
		for {
			_, _ = random.Read(part)
			if _, err := conn.Write(part); err != nil {
				return
			}
			watch(time.Millisecond)
		}
	})
}

// nonsense speaks the protocol of deciders, and answers what no owner answers.
func nonsense(t *testing.T, l net.Listener) (end func()) {
	s := rpcyarpc.NewServer(l, &talker{}, rpcyarpc.ServerOptions{})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _ = s.Stop(context.Background()) })
	t.Cleanup(end)
	return end
}

// talker is a decider that makes no sense.
type talker struct {
	mu sync.Mutex // protects n
	n  int
}

// Update implements rpc.Decider.
func (s *talker) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	s.mu.Lock()
	s.n++
	random := rand.New(rand.NewPCG(uint64(s.n), 0))
	n := s.n
	s.mu.Unlock()
	if n%5 == 0 {
		return payload, nil // what was asked
	}
	value := make([]byte, random.IntN(1000))
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	answer, err := usage.Columnar{}.EncodeGrants(&usage.Grants{
		Weight: []float64{1}, Burst: []float64{1e300}, Used: []float64{1e300}, Lease: []time.Duration{time.Hour}, Tokens: []float64{1e300},
	}, 1)
	if payload.GetTypeUrl() == usage.TakesTypeURL {
		answer, err = usage.EncodeTaken(&usage.Taken{By: 1, Rows: []usage.Took{{Decided: true, OK: true, Lent: 1e12, Left: 1e300}}}, 1)
	}
	if err != nil {
		return nil, err
	}
	switch n % 5 {
	case 1:
		answer.Value = value
	case 2: // cut short
		answer.Value = answer.GetValue()[:random.IntN(len(answer.GetValue()))]
	case 3: // one byte is another
		answer.Value[random.IntN(len(answer.GetValue()))] ^= byte(1 + random.IntN(255))
	default: // more than was asked for
		answer.Value = append(answer.GetValue(), value...)
	}
	// Hosts believe an answer whose values are in range, so such an answer is no test.
	var taken usage.Taken
	if usage.DecodeTaken(answer, 1, &taken) == nil {
		return payload, nil
	}
	if _, err := (usage.Columnar{}).DecodeGrants(answer, &usage.Report{Keys: []string{"k"}}); err == nil {
		return payload, nil
	}
	return answer, nil
}

var _ rpc.Decider = (*talker)(nil)

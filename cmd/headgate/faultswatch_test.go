// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// programs call edges all the time, each edge by a connection of its own, and never retry.
type programs struct {
	keys   []string
	edges  []string
	conns  []*grpc.ClientConn // to edges
	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu     sync.Mutex // protects following fields
	calls  []call
	missed []miss
}

// call is one that was answered.
type call struct {
	at       time.Time
	took     time.Duration
	edge     string
	key      string
	admitted bool
}

// miss is a call that was not answered.
type miss struct {
	at   time.Time
	took time.Duration
	edge string
	err  error
}

// callTimeout is how long a call of programs may take: on a machine with other things to
// do, longer.
func callTimeout() time.Duration { return lasting(time.Minute, time.Second) }

// newPrograms asks for tokens of each key perSecond times a second, at the edges in turn. A
// nil config is plain text.
func newPrograms(t *testing.T, edges, keys []string, perSecond int, config *tls.Config) *programs {
	t.Helper()
	creds, patience := insecure.NewCredentials(), time.Second
	if config != nil { // a handshake takes long on a busy machine
		creds, patience = credentials.NewTLS(config), 10*time.Second
	}
	p := &programs{keys: keys, edges: edges}
	for _, e := range edges {
		conn, err := grpc.NewClient(e, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: patience}))
		if err != nil {
			t.Fatal(err)
		}
		p.conns = append(p.conns, conn)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ask(perSecond)
	t.Cleanup(func() {
		p.close()
		for _, conn := range p.conns {
			_ = conn.Close()
		}
	})
	return p
}

// mostAtOnce is how many calls for one key a program has under way at an edge: on a slow machine
// more would only wait.
const mostAtOnce = 100

// ask asks for tokens of each key perSecond times a second more.
func (p *programs) ask(perSecond int) {
	for i, key := range p.keys {
		p.loops.Go(func() {
			every := time.NewTicker(time.Second / time.Duration(perSecond))
			defer every.Stop()
			var under sync.WaitGroup
			defer under.Wait()
			calls := make([]atomic.Int64, len(p.conns)) // under way at each edge
			for n := i; ; n++ {
				select {
				case <-p.ctx.Done():
					return
				case <-every.C:
				}
				at := n % len(p.conns)
				if calls[at].Load() == mostAtOnce {
					continue
				}
				calls[at].Add(1)
				under.Go(func() {
					defer calls[at].Add(-1)
					p.call(p.conns[at], p.edges[at], key)
				})
			}
		})
	}
}

func (p *programs) call(conn *grpc.ClientConn, edge, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout())
	defer cancel()
	at := time.Now()
	answer, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(ctx, &quotaservicepb.AllowRequest{
		Namespace: key[:1], BucketName: key[2:], TokensRequested: 1, MaxWaitTimeOverride: true,
	})
	took := time.Since(at)
	admitted := answer.GetStatus() == quotaservicepb.AllowResponse_OK
	if err == nil && !admitted && answer.GetStatus() != quotaservicepb.AllowResponse_REJECTED_TIMEOUT {
		err = fmt.Errorf("%v", answer.GetStatus())
	}
	p.mu.Lock()
	defer p.mu.Unlock()

	if err != nil {
		p.missed = append(p.missed, miss{at, took, edge, err})
		return
	}
	p.calls = append(p.calls, call{at, took, edge, key, admitted})
}

func (p *programs) close() {
	p.cancel()
	p.loops.Wait()
}

// admitted is how many events of key were, by calls that began between from and to, at some
// edges; nil: all.
func (p *programs) admitted(key string, from, to time.Time, edges []string) (n float64) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, c := range p.calls {
		if c.admitted && c.key == key && !c.at.Before(from) && c.at.Before(to) && (edges == nil || slices.Contains(edges, c.edge)) {
			n++
		}
	}
	return n
}

// failed are the calls between from and to at some edges that failed, and how many there were.
func (p *programs) failed(from, to time.Time, edges []string) (missed []miss, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, m := range p.missed {
		if !m.at.Before(from) && m.at.Before(to) && slices.Contains(edges, m.edge) {
			missed = append(missed, m)
		}
	}
	for _, c := range p.calls {
		if !c.at.Before(from) && c.at.Before(to) && slices.Contains(edges, c.edge) {
			all++
		}
	}
	return missed, all + len(missed)
}

// slow is how long calls between from and to at some edges took, at the 99th percentile.
func (p *programs) slow(from, to time.Time, edges []string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()

	var all []time.Duration
	for _, c := range p.calls {
		if !c.at.Before(from) && c.at.Before(to) && slices.Contains(edges, c.edge) {
			all = append(all, c.took)
		}
	}
	return quantile(all, 0.99)
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// deciding is a program that decides in memory all the time, and notes how long each
// decision takes.
type deciding struct {
	cancel context.CancelFunc
	loop   sync.WaitGroup

	mu   sync.Mutex // protects took
	took []time.Duration
}

func newDeciding(t *testing.T, edges []string, limits string, config *tls.Config) *deciding {
	t.Helper()
	limited, err := client.New(client.Config{Addresses: edges, TLS: config}, file.New(limits), client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	m := limited.For("m:0")
	eventually(t, "it has a grant", func() bool {
		m.Allow()
		return !share(limited, "m:0").Fallback
	})
	d := &deciding{}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.loop.Go(func() {
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			var took [20]time.Duration
			for i := range took {
				at := time.Now()
				m.Allow()
				took[i] = time.Since(at)
			}
			d.mu.Lock()
			d.took = append(d.took, took[:]...)
			d.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		d.cancel()
		d.loop.Wait()
		_ = limited.Close()
	})
	return d
}

// since returns the p99.9 since the last call.
func (d *deciding) since() time.Duration {
	d.mu.Lock()
	took := d.took
	d.took = nil
	d.mu.Unlock()
	return quantile(took, 0.999)
}

// watching is a cluster under load, of which a fault is measured.
type watching struct {
	*programs

	memory  *deciding
	without time.Duration // p99.9 in memory
	began   time.Time
	before  waiting
}

// newWatching has programs use keys at edges twice as fast as they may, and returns when their
// bursts are spent.
func newWatching(t *testing.T, edges, keys []string, limits string, config *tls.Config) *watching {
	t.Helper()
	w := &watching{programs: newPrograms(t, edges, keys, 2*faultLimit, config), memory: newDeciding(t, edges, limits, config)}
	began := time.Now()
	for _, key := range keys {
		eventually(t, "the burst is spent", func() bool { return w.admitted(key, began, time.Now(), nil) > 2*faultBurst })
	}
	w.memory.since()
	watch(lasting(time.Second, 5*time.Second))
	w.without = w.memory.since()
	return w
}

// begin is called before the fault.
func (w *watching) begin() { w.began, w.before = time.Now(), waits() }

// starved reports whether what was measured since the fault says nothing about the cluster: its
// processes had to wait for a processor.
func (w *watching) starved() bool { return !*strict && w.before.starved() }

// end is called when the fault is over, and returns what is the same for all. Of each key
// at most spare events more than the limit may be admitted, of parts of the limit.
func (w *watching) end(t *testing.T, parts, spare float64) *findings {
	t.Helper()
	now := time.Now()
	with := w.memory.since()
	f := &findings{memory: fmt.Sprintf("%v, %v", micro(with), micro(w.without))}
	// A decision that waited for the cluster takes a millisecond or more. What a machine with
	// other things to do adds to both is not this cluster's.
	if *strict && with > max(2*w.without, 50*time.Microsecond) {
		t.Errorf("in memory, p99.9 is %v, without the fault %v", with, w.without)
	}
	if w.starved() { // edges whose owners answer late use the fallback, which is the limit once more
		parts, spare = parts+1, spare+faultBurst
	}
	most, least := 0., 1e9
	took := now.Sub(w.began).Seconds()
	for _, key := range w.keys {
		n := w.admitted(key, w.began, now, nil)
		most, least = max(most, n/faultLimit/took), min(least, n/faultLimit/took)
		if n > 1.05*parts*faultLimit*took+spare {
			t.Errorf("%s: %.0f admitted in %.1f s, want at most %.1f times the limit and %.0f", key, n, took, parts, spare)
		}
	}
	f.admitted = fmt.Sprintf("%.2f to %.2f in %.0f s", least, most, took)
	return f
}

// none fails t for each call that failed from one time on.
func (w *watching) none(t *testing.T, from time.Time, edges []string) string {
	t.Helper()
	missed, all := w.failed(from, time.Now(), edges)
	slices.SortFunc(missed, func(a, b miss) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	for i, m := range missed {
		if i == 5 {
			break
		}
		t.Errorf("a call at %s failed %v after the fault began, after %v: %v", m.edge, m.at.Sub(w.began), m.took, m.err)
	}
	return counted(len(missed), all)
}

func counted(n, all int) string {
	if n == 0 {
		return fmt.Sprintf("none of %d", all)
	}
	return fmt.Sprintf("%d of %d", n, all)
}

func micro(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// through dials each edge for decided.
func through(t *testing.T, edges []string) (all []*rpcgrpc.Client) {
	t.Helper()
	for _, e := range edges {
		d, err := rpcgrpc.NewClient([]string{e}, rpcgrpc.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		all = append(all, d)
	}
	return all
}

// decidedBy waits until the owner of key answers by way of each, and returns how long that took.
func decidedBy(t *testing.T, all []*rpcgrpc.Client, key string) time.Duration {
	t.Helper()
	began := time.Now()
	for _, d := range all {
		eventually(t, "the owner of "+key+" answers", func() bool { return decided(t.Context(), d, key) })
	}
	return time.Since(began)
}

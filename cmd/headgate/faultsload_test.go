// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
)

// liar has hosts report what is not so.
func liar(t *testing.T) *findings {
	c := newMemberCluster(t, 3, true, faultRules)
	edges := c.edges(-1)
	lied := []string{c.owned(t, "k:", c.nodes[0].cluster)}
	other := c.owned(t, "k:other", c.nodes[0].cluster)
	w := newWatching(t, edges, append(lied, other, c.owned(t, "x:", c.nodes[0].cluster)), c.limits, nil)
	all := through(t, edges)
	w.begin()
	ctx, stop := context.WithCancel(t.Context())
	var lying sync.WaitGroup
	defer lying.Wait()
	defer stop()
	for i := range 10 {
		lying.Go(func() { lie(ctx, all[i%len(all)], fmt.Sprint("liar-", i), lied) })
	}
	watch(lasting(faultLease, 20*time.Second))
	f := w.end(t, 1, faultBurst)
	now := time.Now()
	left := w.admitted(lied[0], w.began.Add(time.Second), now, nil) / faultLimit / (now.Sub(w.began) - time.Second).Seconds()
	untouched := w.admitted(other, w.began, now, nil) / faultLimit / now.Sub(w.began).Seconds()
	f.admitted = fmt.Sprintf("%.2f of its keys, %.2f of others", left, untouched)
	if untouched == 0 || untouched < 0.5 && !w.starved() || *strict && untouched < 0.9 {
		t.Errorf("%.2f of the limit is left of another key", untouched)
	}
	stop()
	lying.Wait()
	stopped := time.Now()
	eventually(t, "the others get all again", func() bool {
		now := time.Now()
		return now.Sub(stopped) > time.Second && w.admitted(lied[0], now.Add(-time.Second), now, nil) > 0.9*faultLimit
	})
	f.served = "all is as before after " + seconds(time.Since(stopped))
	if took := time.Since(stopped); *strict && took > faultLease+3*time.Second {
		t.Errorf("all is as before after %v", took)
	}
	f.failed = w.none(t, w.began, edges)
	return f
}

// lie reports in the name of a host.
func lie(ctx context.Context, d *rpcgrpc.Client, host string, keys []string) {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		payload, err := usage.Columnar{}.EncodeReport(&usage.Report{
			Algorithm: "auto", Keys: keys, Allowed: []int64{0}, Rejected: []int64{1 << 40}, Elapsed: []time.Duration{100 * time.Millisecond},
			Weight: []float64{1}, Wants: []float64{1e15}, Cost: []float64{1},
		})
		if err == nil {
			_, _ = d.Update(ctx, host, payload)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// tenTimes adds load to a cluster that has twice what it admits.
func tenTimes(t *testing.T) *findings {
	c := newMemberCluster(t, 3, true, faultRules)
	edges := c.edges(-1)
	keys := c.limited(t, c.nodes[0].cluster)
	if *strict {
		keys = append(keys, c.limited(t, c.nodes[1].cluster)...)
	}
	w := newWatching(t, edges, keys, c.limits, nil)
	w.begin()
	w.ask(18 * faultLimit)
	watch(lasting(2*time.Second, 20*time.Second))
	f := w.end(t, 1, faultBurst)
	f.failed = w.none(t, w.began, edges)
	f.served = fmt.Sprintf("p99 of calls: %v", w.slow(w.began, time.Now(), edges).Round(time.Millisecond))
	return f
}

// expired has certificates end while daemons run.
func expired(t *testing.T) *findings {
	authority := certtest.New(t)
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	const name = "headgate.test"
	var at []net.IP // where the edges are
	issue := func(until time.Time) {
		c, k := certtest.Encode(t, authority.IssueAltered(t, name, func(c *x509.Certificate) { c.NotAfter, c.IPAddresses = until, at }))
		write(t, key, k)
		write(t, cert, c)
	}
	issue(time.Now().Add(time.Hour))
	write(t, ca, authority.PEM())
	c := newMemberCluster(t, 3, true, faultRules, "--tls-cert", cert, "--tls-key", key, "--cluster-cert", cert, "--cluster-key", key, "--cluster-ca", ca, "--cluster-name", name)
	config := &tls.Config{RootCAs: authority.Pool(), ServerName: name, MinVersion: tls.VersionTLS12}
	edges := c.edges(-1)
	host, _, _ := net.SplitHostPort(edges[0])
	at = append(at, net.ParseIP(host))
	issue(time.Now().Add(time.Hour))
	w := newWatching(t, edges, append(c.limited(t, c.nodes[0].cluster), c.limited(t, c.nodes[1].cluster)...), c.limits, &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12})
	dialed := func(want bool) func() bool {
		return func() bool {
			for _, e := range edges {
				conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", e)
				if err == nil {
					_ = conn.Close()
				}
				if (err == nil) != want {
					return false
				}
			}
			return true
		}
	}
	w.begin()
	issue(time.Now().Add(2 * time.Second))
	eventually(t, "it expires", dialed(false))
	watch(lasting(time.Second, 20*time.Second))
	began := time.Now()
	issue(time.Now().Add(time.Hour))
	eventually(t, "new connections are served again", dialed(true))
	served := time.Since(began)
	watch(lasting(time.Second, 5*time.Second))
	f := w.end(t, 1, faultBurst)
	f.failed = w.none(t, w.began, edges)
	f.served = seconds(served) + ", for new connections"
	if *strict && served > 2*time.Second {
		t.Errorf("new connections are served %v after the file was replaced, want 2 s", served)
	}
	return f
}

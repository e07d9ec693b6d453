// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/grpcconns"
)

// open listens for programs. What comes waits until it is served.
func (d *Daemon) open(ctx context.Context) (err error) {
	if d.access, err = newAccess(d.config, d.log); err != nil {
		return err
	}
	if d.metrics, err = newMetrics(ctx, d.config.Admin, d.access.operators, d.health, d.log); err != nil {
		return err
	}
	l, err := listen(ctx, "programs at the edge", d.config.Edge)
	if err != nil {
		return err
	}
	d.edge, d.web = newEdge(d.door("edge", l), d.ending, d.edgeOptions()...), newWeb(d.ending)
	if d.config.HTTP != "" {
		l, err := listen(ctx, "programs that speak HTTP", d.config.HTTP)
		if err != nil {
			return err
		}
		d.openWeb(d.door("http", l))
	}
	if d.config.Unix != "" {
		l, err := listenUnix(ctx, d.config.Unix, d.config.unixMode())
		if err != nil {
			return err
		}
		d.web.share(d.edge, d.door("unix", l))
	}
	return nil
}

// edgeOptions are how d's edge is measured and encrypted.
func (d *Daemon) edgeOptions() (options []grpc.ServerOption) {
	if d.metrics != nil {
		options = append(options, grpc.ChainUnaryInterceptor(d.metrics.meter.call))
	}
	panics := newPanics("edge", d.log, d.metrics.scope())
	options = append(options, grpc.ChainUnaryInterceptor(panics.call), grpc.ChainStreamInterceptor(panics.stream))
	if d.access.policy != nil {
		options = append(options, grpc.ChainUnaryInterceptor(d.access.call))
	}
	secure := insecure.NewCredentials()
	if d.access.programs != nil {
		secure = credentials.NewTLS(d.access.programs.Server("h2"))
	}
	return append(options, grpc.Creds(grpcconns.Limited(doorCredentials{secure})))
}

// openWeb has HTTP served at l, encrypted if it is to be. HTTP/2 is not offered: one
// connection could hold 100 requests, which no limit of connections bounds.
func (d *Daemon) openWeb(l net.Listener) {
	if d.access.programs != nil {
		l = tls.NewListener(l, d.access.programs.Server("http/1.1"))
	}
	d.web.listen(l)
}

// door is l with as many connections as there may be, counted. The programs of a door
// hold less with unfinished requests than the hosts of a cluster, which report at once.
func (d *Daemon) door(name string, l net.Listener) *conns.Listener {
	door := conns.Track(l, d.config.maxConnections())
	limits := conns.DefaultLimits
	limits.Bytes, limits.TotalBytes = maxUnfinished, maxUnfinishedTotal
	door.Limit(limits)
	door.Measure(d.metrics.scope().Tagged(map[string]string{"door": name}))
	return door
}

// abandon gives up what open opened and nobody serves yet.
func (d *Daemon) abandon() {
	_ = d.metrics.stop()
	d.access.close()
	if d.edge == nil {
		return
	}
	d.web.abandon()
	d.edge.abandon()
	d.web.hangUp()
}

func listen(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("daemon: listen for %s: %w", what, err)
	}
	return l, nil
}

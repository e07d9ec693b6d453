// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/daemon/access"
	"github.com/headgate/headgate/internal/daemon/doors"
	"github.com/headgate/headgate/internal/daemon/meters"
	"github.com/headgate/headgate/internal/grpcconns"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge/httpapi"
)

// open listens for programs. What comes waits until it is served.
func (d *Daemon) open(ctx context.Context) (err error) {
	c := d.config
	d.access, err = access.Open(access.Config{
		Programs: c.TLS.files(), Operators: c.AdminTLS.files(), Deciders: c.ClusterTLS.files(),
		Policy: c.Policy, Staff: c.Operators,
	}, d.log)
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if err := d.openMetrics(ctx); err != nil {
		return err
	}
	files := openFiles()
	if most := c.withinFiles(files); most < c.maxConnections() {
		d.log.Warn("fewer connections are taken than --max-connections says: allow this process more open files, as with LimitNOFILE of systemd or ulimit -n",
			"open_files", files, "max_connections", c.maxConnections(), "taken", most)
		d.config.MaxConnections = most
	}
	l, err := listen(ctx, "programs at the edge", "edge", d.config.Edge)
	if err != nil {
		return err
	}
	d.edge, d.web = doors.NewEdge(d.door(l, doors.GRPC), d.turns, d.ending, d.edgeOptions()...), doors.NewWeb(d.ending)
	if d.config.HTTP != "" {
		l, err := listen(ctx, "programs that speak HTTP", "http", d.config.HTTP)
		if err != nil {
			return err
		}
		d.openWeb(d.door(l, doors.HTTP))
	}
	if d.config.Unix != "" {
		l, err := doors.ListenUnix(ctx, d.config.Unix, d.config.unixMode())
		if err != nil {
			return err
		}
		d.web.Share(d.edge, d.door(l, doors.Unix))
	}
	return nil
}

// openMetrics listens for operators, if they have an address.
func (d *Daemon) openMetrics(ctx context.Context) error {
	if d.config.Admin == "" {
		return nil
	}
	l, err := listen(ctx, "operators", "admin", d.config.Admin)
	if err != nil {
		return err
	}
	if d.metrics, err = meters.New(l, d.access.Operators, d.health, d.log); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// edgeOptions are how d's edge is measured and encrypted.
func (d *Daemon) edgeOptions() (options []grpc.ServerOption) {
	if d.metrics != nil {
		options = append(options, grpc.ChainUnaryInterceptor(d.metrics.Meter().Call))
	}
	panics := doors.NewPanics("edge", d.log, d.metrics.Scope())
	options = append(options, grpc.ChainUnaryInterceptor(panics.Call), grpc.ChainStreamInterceptor(panics.Stream))
	if d.access.Policy != nil {
		options = append(options, grpc.ChainUnaryInterceptor(d.access.Call))
	}
	secure := insecure.NewCredentials()
	if d.access.Programs != nil {
		secure = credentials.NewTLS(d.access.Programs.Server("h2"))
	}
	return append(options, grpc.Creds(grpcconns.Limited(access.Credentials(secure, d.log.With("server", doors.GRPC)))))
}

// openWeb has HTTP served at l, encrypted if it is to be. HTTP/2 is not offered: one
// connection could hold 100 requests, which no limit of connections bounds.
func (d *Daemon) openWeb(l net.Listener) {
	if d.access.Programs != nil {
		l = tls.NewListener(l, d.access.Programs.Server("http/1.1"))
	}
	d.web.Listen(l)
}

// door is l within the limits of programs.
func (d *Daemon) door(l net.Listener, name string) *conns.Listener {
	return doors.Limited(l, name, d.config.maxConnections(), d.metrics.Scope())
}

// serveWeb has the limiters of d's node answer over HTTP.
func (d *Daemon) serveWeb() {
	o := httpapi.Options{Ready: d.phase.ready, Large: d.turns.Run, Scope: d.metrics.Scope()}
	if d.access.Policy != nil {
		o.May = d.access.MayOverHTTP
	}
	var handler http.Handler = httpapi.New(engine.New(d.node.Group(), d.node.Limits().Current), o)
	if d.access.Policy != nil {
		handler = d.access.Wrap(handler)
	}
	d.web.Serve(handler, doors.NewPanics("http", d.log, d.metrics.Scope()), d.metrics.Meter(), d.log)
}

// abandon gives up what open opened and is not served yet.
func (d *Daemon) abandon() {
	_ = d.metrics.Stop()
	d.access.Close()
	if d.edge == nil {
		return
	}
	d.web.Abandon()
	d.edge.Abandon()
	d.web.HangUp()
}

func listen(ctx context.Context, what, flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: another program listens there, so choose another address with --%s", err, flag)
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		err = fmt.Errorf("%w: this machine does not have the address, so give --%s one that it has, or none, as in :7933", err, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("daemon: listen for %s: %w", what, err)
	}
	return l, nil
}

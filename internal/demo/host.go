// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
)

// host is one host of the cluster: a node, and the HTTP service in front of
// which it stands. Use newHost, start, and stop or kill.
type host struct {
	name    string
	node    *headgate.Node
	peers   net.Listener // for other hosts
	web     net.Listener // for the load
	server  *http.Server
	served  chan error // what Serve returned
	desk    *operators.Desk
	forget  context.CancelFunc // ends desk
	watches sync.WaitGroup     // for desk
	running bool
}

// newHost listens for other hosts and for the load.
func newHost(ctx context.Context, name string) (*host, error) {
	peers, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("%s: listen for other hosts: %w", name, err)
	}
	web, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: listen for requests: %w", name, err), peers.Close())
	}
	return &host{name: name, peers: peers, web: web, served: make(chan error, 1)}, nil
}

// member is the host on the ring. It is placed by its name, so that the same
// host decides for a key in every run.
func (h *host) member() ringpop.Host {
	return ringpop.Host{Address: h.peers.Addr().String(), Identity: h.name}
}

// url is where requests go.
func (h *host) url() string { return "http://" + h.web.Addr().String() + "/" }

// start runs the node and the HTTP service. After an error, nothing runs.
func (h *host) start(ctx context.Context, config Config, source *memory.Source, members ringpop.Members, log slog.Handler) error {
	var err error
	h.desk = operators.New()
	h.node, err = headgate.New(headgate.Config{Address: h.peers.Addr().String()}, source, members,
		headgate.WithListen(h.peers), headgate.WithLogger(slog.New(log)), headgate.WithAnswers(h.desk.Answers()))
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", h.name, err), h.close())
	}
	h.desk.Open(h.node, h.peers.Addr().String(), nil)
	if err := h.node.Start(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", h.name, err), h.close())
	}
	h.server = &http.Server{
		Handler:           h.handler(config),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(log, slog.LevelWarn),
	}
	h.running = true
	var watch context.Context
	watch, h.forget = context.WithCancel(context.Background())
	h.watches.Go(func() { h.desk.Run(watch) })
	go func() { h.served <- h.server.Serve(h.web) }()
	return nil
}

// close closes the listeners of a host that was never started.
func (h *host) close() error {
	_ = h.peers.Close() // the node may have closed it
	return h.web.Close()
}

// handler is the service: every lane limits it, and the first one answers.
func (h *host) handler(config Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		admitted := h.node.For(config.Lanes[0].Key).Allow()
		for _, lane := range config.Lanes[1:] {
			h.node.For(lane.Key).Allow()
		}
		if admitted {
			fmt.Fprintf(w, "%s admits\n", h.name)
			return
		}
		http.Error(w, fmt.Sprintf("%s rejects: of the limit of %d/s for %s, %.1f/s are this host's now, and they are used up",
			h.name, config.Limit, config.Lanes[0].Key, float64(h.node.For(config.Lanes[0].Key).Limit())), http.StatusTooManyRequests)
	})
}

// status is what the host knows of a key; the zero Status when it knows
// nothing yet.
func (h *host) status(key string) limiter.Status {
	status, _ := h.node.Group().Inspect(key)
	return status
}

// stop ends the host and returns when nothing of it runs any more.
func (h *host) stop(ctx context.Context) error {
	if !h.running {
		return nil
	}
	h.running = false
	h.forget()
	h.watches.Wait()
	err := errors.Join(h.server.Close(), h.node.Stop(ctx))
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", h.name, err)
	}
	return nil
}

// kill ends the host without a word to anybody: its connections break and
// its ports are closed at once, as when its process dies.
func (h *host) kill() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.stop(now) // says that it was not given time, which is the point
}

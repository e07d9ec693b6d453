// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/operators"
)

// page is the pages for operators of one host, for browsers on this machine. Use servePage.
type page struct {
	url    string
	server *http.Server
	loop   sync.WaitGroup
}

// servePage serves the pages of h. All users of this machine may look at them. No one can
// change anything there, for the limits of the demo have no history.
func servePage(ctx context.Context, h *host) (*page, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for browsers: %w", err)
	}
	p := &page{url: "http://" + l.Addr().String(), server: &http.Server{
		Handler:           h.desk.Handler(operators.Config{Policy: everybody, Log: slog.New(slog.DiscardHandler)}),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn),
	}}
	p.loop.Go(func() { _ = p.server.Serve(l) }) // the demo goes on without its page
	return p, nil
}

// everybody may do everything.
func everybody() *callers.Policy { return nil }

// close ends p, with all its connections.
func (p *page) close() {
	_ = p.server.Close()
	p.loop.Wait()
}

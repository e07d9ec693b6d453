// SPDX-License-Identifier: Apache-2.0

package yarpclimit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"
	"go.uber.org/yarpc/api/middleware"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/yarpcerrors"

	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/internal/asking"
)

// RetryAfter is the header of a response that says, in milliseconds, when to
// come again.
const RetryAfter = "retry-after-ms"

// Options is the setup of a Limit.
type Options struct {
	// Key is the template of a call's key; required.
	Key string

	// MaxWait is the longest that a call waits for its turn; the key's rule
	// may have less. Default 0: what is over the limit is refused at once.
	MaxWait time.Duration

	// User says who calls, for {user}; default the calling service, as the
	// call says.
	User func(ctx context.Context, call *transport.RequestMeta) string

	// Cost says what a call costs, in tokens; default 1. 0 is free.
	Cost func(ctx context.Context, call *transport.RequestMeta) int64

	// Random returns numbers in [0, 1) that spread when to come again;
	// default rand.Float64.
	Random func() float64

	// Scope is where metrics go: `yarpclimit.calls`, by reason; default
	// nowhere.
	Scope tally.Scope
}

// Limit is middleware for all kinds of calls, in both directions. Use New. It
// is safe for concurrent use.
type Limit struct {
	asker *asking.Asker
	o     Options
}

var (
	_ middleware.UnaryInbound   = (*Limit)(nil)
	_ middleware.OnewayInbound  = (*Limit)(nil)
	_ middleware.StreamInbound  = (*Limit)(nil)
	_ middleware.UnaryOutbound  = (*Limit)(nil)
	_ middleware.OnewayOutbound = (*Limit)(nil)
	_ middleware.StreamOutbound = (*Limit)(nil)
)

// New returns a Limit that asks engine. The error says what is wrong with o.
func New(engine edge.Engine, o Options) (*Limit, error) {
	asker, err := asking.New(engine, asking.Setup{
		Name: "yarpclimit", Counter: "calls", Key: o.Key, MaxWait: o.MaxWait, Random: o.Random, Scope: o.Scope,
	})
	switch {
	case err != nil:
		return nil, err
	case asker.Uses("ip"):
		return nil, errors.New("yarpclimit: YARPC does not say from which address a call comes: use another attribute than {ip}")
	}
	return &Limit{asker, o}, nil
}

// Handle implements middleware.UnaryInbound.
func (l *Limit) Handle(ctx context.Context, request *transport.Request, w transport.ResponseWriter, next transport.UnaryHandler) error {
	later, err := l.ask(ctx, request.ToRequestMeta())
	if err == nil {
		return next.Handle(ctx, request, w)
	}
	if later > 0 {
		w.AddHeaders(transport.NewHeaders().With(RetryAfter, strconv.FormatInt(edge.Millis(later), 10)))
	}
	return err
}

// HandleOneway implements middleware.OnewayInbound.
func (l *Limit) HandleOneway(ctx context.Context, request *transport.Request, next transport.OnewayHandler) error {
	if _, err := l.ask(ctx, request.ToRequestMeta()); err != nil {
		return err
	}
	return next.HandleOneway(ctx, request)
}

// HandleStream implements middleware.StreamInbound.
func (l *Limit) HandleStream(stream *transport.ServerStream, next transport.StreamHandler) error {
	if _, err := l.ask(stream.Context(), stream.Request().Meta); err != nil {
		return err
	}
	return next.HandleStream(stream)
}

// Call implements middleware.UnaryOutbound.
func (l *Limit) Call(ctx context.Context, request *transport.Request, out transport.UnaryOutbound) (*transport.Response, error) {
	if _, err := l.ask(ctx, request.ToRequestMeta()); err != nil {
		return nil, err
	}
	return out.Call(ctx, request)
}

// CallOneway implements middleware.OnewayOutbound.
func (l *Limit) CallOneway(ctx context.Context, request *transport.Request, out transport.OnewayOutbound) (transport.Ack, error) {
	if _, err := l.ask(ctx, request.ToRequestMeta()); err != nil {
		return nil, err
	}
	return out.CallOneway(ctx, request)
}

// CallStream implements middleware.StreamOutbound.
func (l *Limit) CallStream(ctx context.Context, request *transport.StreamRequest, out transport.StreamOutbound) (*transport.ClientStream, error) {
	if _, err := l.ask(ctx, request.Meta); err != nil {
		return nil, err
	}
	return out.CallStream(ctx, request)
}

// ask is nil if a call may go on; else later is when to come again, if anybody
// knows.
func (l *Limit) ask(ctx context.Context, call *transport.RequestMeta) (later time.Duration, err error) {
	if call == nil {
		call = new(transport.RequestMeta)
	}
	cost := int64(1)
	if l.o.Cost != nil {
		cost = l.o.Cost(ctx, call)
	}
	s, _ := sources.Get().(*source) // nothing else is put there
	*s = source{ctx, &l.o, call}
	d, err := l.asker.Decide(ctx, s, cost)
	*s = source{}
	sources.Put(s)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return 0, yarpcerrors.DeadlineExceededErrorf("the call ended while it waited for its turn")
	case err != nil:
		return 0, yarpcerrors.CancelledErrorf("the call ended while it waited for its turn")
	case d.OK:
		return 0, nil
	case d.Reason == edge.Limited:
		later = l.asker.Later(&d)
	}
	return later, refused(d.Reason)
}

// refused is the error of a reason.
func refused(r edge.Reason) error {
	code, text := asking.Explain(r)
	return yarpcerrors.Newf(yarpcerrors.Code(code), "%s", text)
}

// source has the attributes of a call.
type source struct {
	ctx  context.Context
	o    *Options
	call *transport.RequestMeta
}

// sources keeps the memory of sources.
var sources = sync.Pool{New: func() any { return new(source) }}

// Attribute implements keys.Source.
func (s *source) Attribute(name, arg string) string {
	switch name {
	case "method":
		return s.call.Procedure
	case "path", "route":
		return s.call.Service + "::" + s.call.Procedure
	case "header":
		value, _ := s.call.Headers.Get(arg)
		return value
	case "user":
		if s.o.User != nil {
			return s.o.User(s.ctx, s.call)
		}
		return s.call.Caller
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc"
)

// Panics end one call each, and not the process: the caller gets an error, and
// the log the stack. Safe for concurrent use.
type Panics struct {
	log     *slog.Logger
	counted tally.Counter
}

// NewPanics returns the Panics of server, which log and scope know by that name.
func NewPanics(server string, log *slog.Logger, scope tally.Scope) *Panics {
	return &Panics{
		log:     log.With("server", server),
		counted: scope.Tagged(map[string]string{"server": server}).Counter("panics"),
	}
}

// note counts and logs the panic in err, if there is one.
func (p *Panics) note(err error) {
	p.counted.Inc(1)
	p.log.Error("the server failed at a request", "error", err, "stack", rpc.StackOf(err))
}

// Call is a grpc.UnaryServerInterceptor.
func (p *Panics) Call(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer p.answered(&err)
	return handle(ctx, request)
}

// Stream is a grpc.StreamServerInterceptor.
func (p *Panics) Stream(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer p.answered(&err)
	return handle(server, s)
}

// answered turns a panic into the answer INTERNAL. Defer answered itself.
func (p *Panics) answered(err *error) {
	value := recover()
	if value == nil {
		return
	}
	p.note(rpc.Panicked(value))
	*err = status.Error(codes.Internal, "the server failed at this call; its log says how")
}

// wrap answers 500 where next panics.
func (p *Panics) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			if value == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(value)
			}
			p.note(rpc.Panicked(value))
			http.Error(w, "the server failed at this request; its log says how", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Errors of Do, beside those of stage.Remote, of the caller's context and of
// the client.
var (
	// ErrPaused means that Redis failed recently and is not asked for a while.
	ErrPaused = errors.New("redis: paused after failures")

	// ErrTooLate means that the caller's deadline is too near for an answer,
	// so Redis was not asked. It is a stage.ErrBusy: Redis' health is unknown.
	ErrTooLate error = stage.Busy("redis: the caller's deadline is too near for an answer")
)

// Buckets are buckets in Redis. Use New. Safe for concurrent use.
type Buckets struct {
	client  client
	config  Config
	log     *slog.Logger
	metrics metrics
	script  script
	clock   func() time.Duration // nil: Redis' own

	calls  calls
	shards []shard

	pausing atomic.Int64 // shards
}

var _ stage.Remote = (*Buckets)(nil)

// client is what Buckets need of a goredis.UniversalClient. Each package that has values with that
// type inside compiles hundreds of methods of the library again.
type client interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
}

// Option is a collaborator of Buckets.
type Option func(*Buckets)

// WithLogger sets the logger. By default nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return func(b *Buckets) {
		if log != nil {
			b.log = log
		}
	}
}

// WithScope sets where metrics go. By default there are none.
func WithScope(scope tally.Scope) Option {
	return func(b *Buckets) {
		b.metrics = newMetrics(scopes.Guard(scope, slog.Default()))
	}
}

// WithClock has clock give the time, since any fixed point, instead of
// Redis: for simulations. All users of these buckets need the same clock.
// Nothing expires then.
func WithClock(clock func() time.Duration) Option {
	return func(b *Buckets) {
		if clock != nil {
			b.clock, b.script = clock, timed
		}
	}
}

// New returns the buckets that client reaches. A client that Client did not
// make must heed the deadline of a context (ContextTimeoutEnabled). New returns an error
// if the client waits for less than config.Timeout.
func New(client goredis.UniversalClient, config Config, options ...Option) (*Buckets, error) {
	if client == nil {
		return nil, errors.New("redis: the client is nil: use Client")
	}
	if _, ok := client.(addressless); ok {
		return nil, errors.New("redis: an address of Redis is missing: give Options.Addresses, each as in 10.0.0.7:6379")
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	b := &Buckets{
		client: client, config: config.withDefaults(), log: slog.New(slog.DiscardHandler),
		metrics: newMetrics(tally.NoopScope), script: bucket,
	}
	for _, o := range options {
		if o != nil {
			o(b)
		}
	}
	b.shards = make([]shard, 1)
	var reads time.Duration // for as long as the client waits at most; not above 0: as long as the context says
	switch c := client.(type) {
	case *goredis.Client:
		reads = c.Options().ReadTimeout
		b.config.MaxCalls = min(b.config.MaxCalls, c.Options().PoolSize)
	case *goredis.ClusterClient:
		reads = c.Options().ReadTimeout
		b.config.MaxCalls = min(b.config.MaxCalls, c.Options().PoolSize)
		b.shards = make([]shard, clusterShards)
	}
	if reads > 0 && config.Timeout > reads {
		return nil, fmt.Errorf("redis: Config.Timeout is %v, and the client waits for %v: set Options.Timeout to as much, or ReadTimeout and WriteTimeout of a client of your own", config.Timeout, reads)
	}
	b.calls = newCalls(b.config.MaxCalls)
	for i := range b.shards {
		b.shards[i].breaker = newBreaker(b.config, &b.shards[i].paused)
	}
	return b, nil
}

// Paused reports whether a part of Redis is paused after failures, so that keys there
// fall back.
func (b *Buckets) Paused() bool { return b.pausing.Load() > 0 }

// Do implements stage.Remote. It returns within twice Config.Timeout, and at
// once with ErrPaused while Redis is paused. When ctx is canceled, it returns
// within Config.Timeout.
func (b *Buckets) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	s := b.shardOf(op.Key)
	outcome, err := b.do(ctx, s, op)
	if s.paused.Load() != s.reported.Load() {
		b.report(s, err)
	}
	switch {
	case answered(err):
		b.metrics.answered.Inc(1)
	case errors.As(err, new(failure)):
		b.metrics.failed.Inc(1)
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		b.metrics.notAsked.Inc(1)
		err = ErrPaused
	case errors.Is(err, stage.ErrBusy):
		b.metrics.notAsked.Inc(1)
	}
	return outcome, err
}

func (b *Buckets) do(ctx context.Context, s *shard, op stage.Operation) (outcome stage.Outcome, err error) {
	if s.breaker.State() == gobreaker.StateOpen { // no call is needed
		return outcome, gobreaker.ErrOpenState
	}
	if err := b.calls.acquire(ctx, b.config.Timeout); err != nil {
		return outcome, err
	}
	defer func() { b.calls.release(err) }()
	return s.breaker.Execute(func() (stage.Outcome, error) { return b.call(ctx, s, op) })
}

// call asks Redis, for at most Config.Timeout.
func (b *Buckets) call(ctx context.Context, s *shard, op stage.Operation) (stage.Outcome, error) {
	left := b.config.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	began := stage.Now()
	switch {
	case ctx.Err() != nil:
		return stage.Outcome{}, ctx.Err()
	case !s.admit(began, left, b.config.Pause):
		return stage.Outcome{}, ErrTooLate
	}
	bounded, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	outcome, err := b.run(bounded, op)
	now := stage.Now()
	took := min(now.Sub(began), b.config.Timeout)
	if answered(err) {
		s.answer(took)
		return outcome, err
	}
	var timeout interface{ Timeout() bool }
	late := errors.As(err, &timeout) && timeout.Timeout()
	if late && left < b.config.Timeout {
		<-ctx.Done() // the connection's timer may be ahead of the context's
		s.miss(min(2*took, b.config.Timeout))
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		err = fmt.Errorf("redis: %w: all connections of the client are in use", stage.ErrBusy)
	default:
		err = failure{
			error:   fmt.Errorf("redis: ask %q for %v tokens: %w", b.shown(op), op.N, err),
			counted: !goredis.HasErrorPrefix(err, "TRYAGAIN") && s.fail(began, now), // "TRYAGAIN": a cluster is moving the bucket
		}
	}
	return stage.Outcome{}, err
}

// run sends the script. No command is sent twice, except that a Redis Cluster
// may redirect it, and that a Redis which does not know the script's digest is
// sent the text: in both cases it was not run.
func (b *Buckets) run(ctx context.Context, op stage.Operation) (outcome stage.Outcome, err error) {
	defer rpc.Recovered(&err) // the client panics at lengths that no answer of Redis has
	name := b.config.Prefix + nameOf(op.Key)
	args := []any{"evalsha", b.script.hash, 1, name}
	if op.ID != 0 && op.Kind != stage.TakeTokens {
		args[2] = 2
		args = append(args, idName(name, op.ID))
		if op.Forget != 0 {
			args[2] = 3
			args = append(args, idName(name, op.Forget))
		}
	}
	args = append(args, arguments(op, b.config.Keep)...)
	if b.clock != nil {
		args = append(args, b.clock().Microseconds())
	}
	cmd := once{goredis.NewCmd(ctx, args...)}
	err = b.client.Process(ctx, cmd)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		args[0], args[1] = "eval", b.script.text
		cmd = once{goredis.NewCmd(ctx, args...)}
		err = b.client.Process(ctx, cmd)
	}
	var reply goredis.Error
	if err == nil {
		outcome, err = read(cmd.Val())
	} else if err = (brief{err}); errors.As(err, &reply) && (strings.Contains(reply.Error(), "WRONGTYPE") || strings.Contains(reply.Error(), "HEADGATE")) {
		err = fmt.Errorf("%w: %w", stage.ErrNonsense, err)
	}
	if errors.Is(err, stage.ErrNonsense) {
		err = fmt.Errorf("redis: %q is no bucket of this release; delete it, or set another prefix: %w", b.shown(op), err)
	}
	return outcome, err
}

// shown is the name of the bucket that op is about, as logs may have it.
func (b *Buckets) shown(op stage.Operation) string {
	return b.config.Prefix + nameOf(op.Rule.Shown(op.Key))
}

// idName is the name of the ID of a charge or a return, in the hash slot of the
// bucket called name.
func idName(name string, id uint64) string { return name + "#" + strconv.FormatUint(id, 36) }

// once is a command that no client may send again: its answer may be all that
// was lost.
type once struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }

// shardOf is where the bucket of key is.
func (b *Buckets) shardOf(key string) *shard {
	if len(b.shards) == 1 {
		return &b.shards[0]
	}
	return &b.shards[slot(key)*len(b.shards)/slots]
}

// report logs once that a shard is paused, or not any more.
func (b *Buckets) report(s *shard, err error) {
	paused := s.paused.Load()
	if s.reported.Swap(paused) == paused {
		return
	}
	if paused {
		b.metrics.paused.Update(float64(b.pausing.Add(1)))
		b.log.Warn("redis does not answer; keys fall back, and it is asked again after a pause", "pause", b.config.Pause, "error", err)
		return
	}
	b.metrics.paused.Update(float64(b.pausing.Add(-1)))
	b.log.Info("redis answers again")
}

// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter"
)

// Defaults of Config.
const (
	DefaultPrefix   = "headgate:"
	DefaultTimeout  = 20 * time.Millisecond
	DefaultMaxCalls = 128
	DefaultFailures = 5
	DefaultPause    = time.Second
)

// Errors of Take, beside those of the client.
var (
	// ErrPaused: it failed lately, and nobody asks for now.
	ErrPaused = errors.New("redis: it failed lately, and is not asked for now")
	// ErrBusy: as many calls as there may be are under way.
	ErrBusy = errors.New("redis: too many calls are under way")
)

// Config is how Redis is asked. The zero Config has all defaults.
type Config struct {
	// Prefix is what the names of all buckets begin with; default
	// DefaultPrefix. Services that share a Redis and no limits need different
	// ones. It has no brace.
	Prefix string

	// Timeout is how long an event waits for the answer at most; default
	// DefaultTimeout. More rides out longer hiccups, and callers wait longer
	// in them.
	Timeout time.Duration

	// MaxCalls is how many calls are under way at once at most; default
	// DefaultMaxCalls. Others wait for their turn, within Timeout.
	MaxCalls int

	// Failures in a row, or half of all when they are four times as many,
	// make Redis not be asked for Pause; default DefaultFailures. Fewer make
	// fewer callers wait when it is gone, and a hiccup count for more.
	Failures int

	// Pause is for how long; default DefaultPause. Then as many calls as Failures
	// find out whether it is back.
	Pause time.Duration
}

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if strings.ContainsAny(c.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("redis: prefix %q has a brace, which means something to a Redis Cluster", c.Prefix))
	}
	if c.Timeout < 0 || c.Pause < 0 || c.MaxCalls < 0 || c.Failures < 0 {
		errs = append(errs, errors.New("redis: a timeout, pause, or number of calls or failures is negative; 0 is the default"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Timeout, DefaultTimeout)
	set(&c.Pause, DefaultPause)
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.MaxCalls == 0 {
		c.MaxCalls = DefaultMaxCalls
	}
	if c.Failures == 0 {
		c.Failures = DefaultFailures
	}
	return c
}

// Buckets are buckets in Redis. Use New. Safe for concurrent use.
type Buckets struct {
	client  goredis.UniversalClient
	config  Config
	log     *slog.Logger
	metrics metrics
	script  *goredis.Script
	clock   func() time.Duration // nil: the server's

	calls chan struct{} // has room for those that may go on
	parts []part        // one, or those of a Redis Cluster

	pausing atomic.Int64 // parts
}

// part is some slots of a Redis Cluster, or all of a Redis. What fails in one
// does not keep others from being asked.
type part struct {
	breaker *gobreaker.CircuitBreaker[limiter.Taken]

	// paused as the breaker has it, and as it was told. Nothing is ordered by
	// them: they are for people.
	paused, told atomic.Bool
}

// clusterParts is how many there are in a Redis Cluster. A node mostly has
// many; a part with slots of two fails when one does.
const clusterParts = 64

var _ limiter.Remote = (*Buckets)(nil)

// Option is a collaborator of Buckets.
type Option func(*Buckets)

// WithLogger sets the logger; default nowhere.
func WithLogger(log *slog.Logger) Option { return func(b *Buckets) { b.log = log } }

// WithScope sets where metrics go; default nowhere.
func WithScope(scope tally.Scope) Option {
	return func(b *Buckets) { b.metrics = newMetrics(scope) }
}

// WithClock has clock tell the time, since any fixed point, instead of the
// server: for simulations. All who use these buckets need the same clock, and
// buckets that are full are forgotten at their next use and not before.
func WithClock(clock func() time.Duration) Option {
	return func(b *Buckets) { b.clock, b.script = clock, timed }
}

// New returns the buckets that client reaches. A client that Client did not
// make must heed the deadline of a context, and should not try again.
func New(client goredis.UniversalClient, config Config, options ...Option) (*Buckets, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	b := &Buckets{
		client: client, config: config.withDefaults(), log: slog.New(slog.DiscardHandler),
		metrics: newMetrics(tally.NoopScope), script: bucket,
	}
	for _, o := range options {
		o(b)
	}
	b.calls = make(chan struct{}, b.config.MaxCalls)
	b.parts = make([]part, 1)
	if _, ok := client.(*goredis.ClusterClient); ok {
		b.parts = make([]part, clusterParts)
	}
	for i := range b.parts {
		b.parts[i].breaker = b.newBreaker(&b.parts[i])
	}
	return b, nil
}

func (b *Buckets) newBreaker(p *part) *gobreaker.CircuitBreaker[limiter.Taken] {
	return gobreaker.NewCircuitBreaker[limiter.Taken](gobreaker.Settings{
		Name:         "redis",
		MaxRequests:  uint32(min(b.config.Failures, 1<<30)),
		Interval:     window,
		BucketPeriod: window / 10,
		Timeout:      b.config.Pause,
		ReadyToTrip:  b.enough,
		IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, errCallerGone) },
		// It is called under the breaker's lock: what there is to say is said
		// by the next who takes.
		OnStateChange: func(_ string, _, to gobreaker.State) { p.paused.Store(to != gobreaker.StateClosed) },
	})
}

// window is over how long failures are counted that are not in a row.
const window = 10 * time.Second

// enough tells whether there were enough failures to stop asking.
func (b *Buckets) enough(c gobreaker.Counts) bool {
	most := uint32(min(b.config.Failures, 1<<28))
	return c.ConsecutiveFailures >= most || c.TotalFailures >= 4*most && c.TotalFailures*2 >= c.Requests
}

// errCallerGone: nobody waits for the answer any more.
var errCallerGone = errors.New("who asked has gone")

// Take implements limiter.Remote. It returns within Config.Timeout, and at
// once with ErrPaused while Redis is not asked.
func (b *Buckets) Take(ctx context.Context, t limiter.Take) (limiter.Taken, error) {
	name := b.config.Prefix + "{" + t.Key + "}"
	p := b.partOf(t.Key)
	taken, err := p.breaker.Execute(func() (limiter.Taken, error) { return b.ask(ctx, name, t) })
	if p.paused.Load() != p.told.Load() {
		b.tell(p, err)
	}
	switch {
	case err == nil:
		b.metrics.answered.Inc(1)
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		b.metrics.paused.Inc(1)
		err = ErrPaused
	case errors.Is(err, errCallerGone):
	default:
		b.metrics.failed.Inc(1)
	}
	return taken, err
}

// ask makes the call.
func (b *Buckets) ask(ctx context.Context, name string, t limiter.Take) (limiter.Taken, error) {
	if err := ctx.Err(); err != nil {
		return limiter.Taken{}, errors.Join(errCallerGone, err)
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	taken, err := b.call(bounded, name, t)
	switch {
	case err == nil:
		return taken, nil
	case b.left(ctx, bounded, began, err):
		return limiter.Taken{}, errors.Join(errCallerGone, ctx.Err())
	}
	return limiter.Taken{}, fmt.Errorf("take %v tokens of %q from redis: %w", t.N, t.Key, err)
}

// left tells whether err is the caller's doing, who went away, or gave less
// time than Redis is given. But one that waited for a while is a witness that
// it does not answer: else, where nobody is patient, nobody would find out.
func (b *Buckets) left(ctx, bounded context.Context, began time.Time, err error) bool {
	deadline, ok := ctx.Deadline()
	first, _ := bounded.Deadline()
	var timeout interface{ Timeout() bool }
	if ok && deadline.Equal(first) && errors.As(err, &timeout) && timeout.Timeout() {
		<-ctx.Done() // the connection's timer may be ahead of the context's
	}
	switch ctx.Err() {
	case nil:
		return false
	case context.Canceled:
		return true
	}
	return time.Since(began) < b.config.Timeout/4
}

func (b *Buckets) call(ctx context.Context, name string, t limiter.Take) (limiter.Taken, error) {
	select {
	case b.calls <- struct{}{}:
		defer func() { <-b.calls }()
	case <-ctx.Done():
		return limiter.Taken{}, ErrBusy
	}
	if ctx.Err() != nil { // both at once
		return limiter.Taken{}, ErrBusy
	}
	args := arguments(t)
	all := args[:]
	if b.clock != nil {
		all = append(all, b.clock().Microseconds())
	}
	answer, err := b.script.Run(ctx, b.client, []string{name}, all...).Result()
	if err != nil {
		return limiter.Taken{}, err
	}
	return read(answer)
}

// partOf is where the bucket of key is. Its hash tag, all of the key up to a
// closing brace, says so to a Redis Cluster too.
func (b *Buckets) partOf(key string) *part {
	if len(b.parts) == 1 {
		return &b.parts[0]
	}
	return &b.parts[slot(key)*len(b.parts)/slots]
}

// tell says once that a part is not asked any more, or again.
func (b *Buckets) tell(p *part, err error) {
	paused := p.paused.Load()
	if p.told.Swap(paused) == paused {
		return
	}
	if paused {
		b.metrics.pausing.Update(float64(b.pausing.Add(1)))
		b.log.Warn("redis does not answer; keys fall back, and it is asked again after a pause", "pause", b.config.Pause, "error", err)
		return
	}
	b.metrics.pausing.Update(float64(b.pausing.Add(-1)))
	b.log.Info("redis answers again")
}

// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/headgate/headgate/limiter/stage"
)

// shard is a range of a Redis Cluster's hash slots, or a whole Redis. Each has
// a breaker, so that a node that fails does not pause the keys of others.
type shard struct {
	breaker *gobreaker.CircuitBreaker[stage.Outcome]

	// paused is set while the breaker is not closed, and reported is what the
	// log says. They order nothing.
	paused, reported atomic.Bool

	// sent and failed are the Instants of the last call and of the last failure
	// that counted. roundTrip estimates how long an answer takes, in
	// nanoseconds. They are hints and need no ordering.
	sent, failed, roundTrip atomic.Int64
}

// clusterShards is how many shards a Redis Cluster has. A node mostly has
// many; a shard with hash slots of two nodes fails when either does.
const clusterShards = 64

// admit reports whether to send a call whose caller has left: if the answer
// can be expected in time, or else if nothing was sent for a pause. Without
// the latter the estimate could stay too high.
func (s *shard) admit(now stage.Instant, left, pause time.Duration) bool {
	sent := s.sent.Load()
	if left >= time.Duration(s.roundTrip.Load()) {
		s.sent.Store(int64(now))
		return true
	}
	return now.Sub(stage.Instant(sent)) >= pause && s.sent.CompareAndSwap(sent, int64(now))
}

// answer notes that a call was answered. The estimate rises at once and falls
// by half at most, so that one quick answer among slow ones does not count.
func (s *shard) answer(took time.Duration) {
	s.roundTrip.Store(max(int64(took), s.roundTrip.Load()/2))
}

// miss raises the estimate to least, because a caller waited in vain.
func (s *shard) miss(least time.Duration) {
	s.roundTrip.Store(max(int64(least), s.roundTrip.Load()))
}

// fail reports whether a failure at now counts: only one does of those whose
// calls were under way at the same time. Otherwise a hiccup of this host's
// processors, in which all calls time out, would be many failures in a row.
func (s *shard) fail(began, now stage.Instant) bool {
	last := s.failed.Load()
	return int64(began) >= last && s.failed.CompareAndSwap(last, int64(now))
}

// failure is the error of a call that Redis did not answer. The breaker
// ignores one that is not counted.
type failure struct {
	error
	counted bool
}

func (f failure) Unwrap() error { return f.error }

// answered reports whether err is that of a call that Redis answered.
func answered(err error) bool { return err == nil || errors.Is(err, stage.ErrNonsense) }

// window is how long the breaker counts failures that are not in a row.
const window = 10 * time.Second

// newBreaker returns a closed breaker, which sets paused while it is not.
func newBreaker(c Config, paused *atomic.Bool) *gobreaker.CircuitBreaker[stage.Outcome] {
	failures := uint32(min(c.Failures, 1<<28))
	return gobreaker.NewCircuitBreaker[stage.Outcome](gobreaker.Settings{
		Name:         "redis",
		MaxRequests:  failures,
		Interval:     window,
		BucketPeriod: window / 10,
		Timeout:      c.Pause,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.ConsecutiveFailures >= failures ||
				n.TotalFailures >= 4*failures && n.TotalFailures >= n.TotalSuccesses
		},
		IsSuccessful: answered,
		IsExcluded: func(err error) bool {
			var f failure
			return !answered(err) && (!errors.As(err, &f) || !f.counted)
		},
		// The breaker's lock is held, so the next caller writes the log.
		OnStateChange: func(_ string, _, to gobreaker.State) { paused.Store(to != gobreaker.StateClosed) },
	})
}

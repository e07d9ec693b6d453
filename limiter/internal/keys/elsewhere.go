// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/usage"
	"github.com/headgate/headgate/limiter/stage"
)

var _ remote.Host = (*elsewhere)(nil)

// elsewhere is what the keys of a Set have in common whose buckets are
// elsewhere.
type elsewhere struct {
	*Config
	metrics  *usage.Metrics
	interval func() time.Duration
	running  remote.Background
	owing    remote.Owing
	failures seldom      // warnings of them
	warned   atomic.Bool // since a remote bucket answered last
	nonsense seldom      // warnings of answers that make no sense
	asks     remote.Budget
}

// asksPerHost is how many times per second a host asks owners beyond its grants,
// and asksAtOnce how many times at once. Asks for one owner share messages.
const (
	asksPerHost = 5000
	asksAtOnce  = 1000
)

// MayAsk implements remote.Host.
func (e *elsewhere) MayAsk(now stage.Instant) bool { return e.asks.Spend(now, asksPerHost, asksAtOnce) }

// Interval implements remote.Host.
func (e *elsewhere) Interval() time.Duration { return e.interval() }

// Background implements remote.Host.
func (e *elsewhere) Background(f func()) bool {
	if e.Config.Background != nil {
		e.Config.Background(f)
		return true
	}
	if e.running.Run(f) {
		return true
	}
	e.metrics.Skipped.Inc(1)
	return false
}

// RemoteOwes implements remote.Host.
func (e *elsewhere) RemoteOwes(now stage.Instant, s *remote.Stage) { e.owing.Add(now, s) }

// RemoteFailed implements remote.Host.
func (e *elsewhere) RemoteFailed(now stage.Instant, r *share.Rate, err error, first bool) {
	e.metrics.RemoteFailures.Inc(1)
	t, nonsense := r.Terms(), errors.Is(err, stage.ErrNonsense) // that says nothing about other keys
	switch {
	case nonsense:
		if first && e.nonsense.due(now) {
			e.Log.Warn("a remote bucket's answer for a key makes no sense; the key falls back", "key", r.Key(), "algorithm", t.Algorithm, "error", err)
		}
	case errors.Is(err, stage.ErrBusy): // this host is busy; the remote may be well
	case !e.warned.Load() && e.failures.due(now): // also if another remote answers again, or the first failure came too soon after a warning
		e.warned.Store(true)
		e.Log.Warn("a remote bucket does not answer; its keys fall back", "key", r.Key(), "algorithm", t.Algorithm, "error", err)
	}
	if first {
		e.changed(now, FallbackEntered, r.Key(), t.Rule.Key)
	}
}

// RemoteAnswers implements remote.Host.
func (e *elsewhere) RemoteAnswers(now stage.Instant, r *share.Rate) {
	t := r.Terms()
	if e.warned.Load() && e.warned.Swap(false) {
		e.Log.Info("a remote bucket answers again", "key", r.Key(), "algorithm", t.Algorithm)
	}
	e.changed(now, FallbackLeft, r.Key(), t.Rule.Key)
}

// RemotePanicked implements remote.Host.
func (e *elsewhere) RemotePanicked(key string, err error) {
	e.Log.Error("a remote bucket panicked", "key", key, "panic", err)
}

// flush sends what the remotes of all are owed, as many at a time as may run in the
// background, and waits until all have ended. If no remote answers, flush gives up.
func (e *elsewhere) flush(all []*remote.Stage) {
	for len(all) > 0 {
		e.running.Join()
		some := all[:min(len(all), e.running.Most())]
		all = all[len(some):]
		for _, s := range some {
			s.FlushLater(report.Never)
		}
		e.running.Join()
		if !slices.ContainsFunc(some, func(s *remote.Stage) bool { return !s.Owes() }) {
			break
		}
	}
	e.running.Join()
}

// remoteOf is the stage of p whose bucket is elsewhere; nil if there is none.
func remoteOf(p share.Part) *remote.Stage {
	switch s := p.(type) {
	case *remote.Stage:
		return s
	case *remote.Auto:
		return &s.Stage
	}
	return nil
}

// leave says that p leaves its key.
func leave(now stage.Instant, p share.Part) {
	if s := remoteOf(p); s != nil {
		s.Leave(now)
	}
}

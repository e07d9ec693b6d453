// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

var _ remote.Host = (*Group)(nil)

// maxBackground bounds what goes on in the background of a Group.
const maxBackground = 256

// background runs functions in goroutines of their own, at most as many as it
// has room for. A panic of one ends nothing.
type background struct {
	busy chan struct{}
	log  *slog.Logger
}

// Background returns what runs a function in a goroutine of its own, at most
// most of them at a time; it returns false if as many run already.
func Background(most int) func(func()) bool {
	return background{make(chan struct{}, most), slog.New(slog.DiscardHandler)}.run
}

func (b background) run(f func()) bool {
	select {
	case b.busy <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				b.log.Error("a background call panicked", "panic", p)
			}
			<-b.busy
		}()
		f()
	}()
	return true
}

// join waits until nothing runs.
func (b background) join() {
	for range cap(b.busy) {
		b.busy <- struct{}{}
	}
	for range cap(b.busy) {
		<-b.busy
	}
}

// Background implements remote.Host.
func (g *Group) Background(f func()) bool {
	if g.aside != nil {
		g.aside(f)
		return true
	}
	if g.background.run(f) {
		return true
	}
	g.metrics.skipped.Inc(1)
	return false
}

// flush sends what remote buckets are owed still, as much at a time as there is
// room for in the background, and waits until nothing goes on there. It gives up
// when nothing of that is answered.
func (g *Group) flush() {
	owing := g.allOwing()
	for len(owing) > 0 {
		g.background.join()
		some := owing[:min(len(owing), maxBackground)]
		owing = owing[len(some):]
		for _, s := range some {
			s.FlushLater(report.Never)
		}
		g.background.join()
		if !slices.ContainsFunc(some, func(s *remote.Stage) bool { return !s.Owes() }) {
			break
		}
	}
	g.background.join()
}

// allOwing are the stages that owe something.
func (g *Group) allOwing() (all []*remote.Stage) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	for _, l := range g.live {
		st := l.state.Load()
		if st == nil {
			continue
		}
		for _, p := range st.parts() {
			if s := remoteOf(p.Part()); s != nil && s.Owes() {
				all = append(all, s)
			}
		}
	}
	return append(all, g.owing.all()...)
}

// flush sends what the remote buckets of st are owed, unless that failed lately.
func (st *state) flush(now stage.Instant) {
	for _, p := range st.parts() {
		if s := remoteOf(p.Part()); s != nil {
			s.FlushLater(now)
		}
	}
}

// RemoteFailed implements remote.Host.
func (g *Group) RemoteFailed(now stage.Instant, r *share.Rate, err error, first bool) {
	g.metrics.remoteFailures.Inc(1)
	if !first {
		return
	}
	t := r.Terms()
	if errors.Is(err, stage.ErrNonsense) { // that says nothing about other keys
		g.log.Warn("a remote bucket's answer for a key makes no sense; the key falls back", "key", r.Key(), "algorithm", t.Algorithm, "error", err)
	} else if g.failing.Add(1) == 1 {
		g.log.Warn("a remote bucket does not answer; its keys fall back", "key", r.Key(), "algorithm", t.Algorithm, "error", err)
	}
	g.tellOf(now, EventFallbackEntered, r.Key(), t.Rule.Key)
}

// RemoteAnswers implements remote.Host.
func (g *Group) RemoteAnswers(now stage.Instant, r *share.Rate) {
	t := r.Terms()
	if g.failing.Swap(0) > 0 {
		g.log.Info("a remote bucket answers again", "key", r.Key(), "algorithm", t.Algorithm)
	}
	g.tellOf(now, EventFallbackLeft, r.Key(), t.Rule.Key)
}

// RemotePanicked implements remote.Host.
func (g *Group) RemotePanicked(key string, err error) {
	g.log.Error("a remote bucket panicked", "key", key, "panic", err)
}

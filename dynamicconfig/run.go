// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/brief"
)

// How long Run waits before it tries again a source that cannot watch.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// Run keeps l at what source has, until ctx ends. Each change is logged in one
// line, which names at most ten of the rules that changed. At most ten Warnings of the
// first snapshot, and of each that changes something, are logged too, and the Overrides
// that have no effect. What is broken is counted, kept as LastError and logged once for
// each different error; the last good snapshot stays current. If source then has that
// snapshot again, one line says so. A nil logger logs nothing.
// A process has one Run for one Live.
//
// Run also ends each Override when the wall clock reaches its Until; it needs no source
// for that. Hosts whose clocks differ by d end it up to d apart. A clock that is set
// takes effect within a second.
func (l *Live) Run(ctx context.Context, source Source, logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l.log.Store(logger)
	var clock sync.WaitGroup
	defer clock.Wait()
	clock.Go(func() { l.followClock(ctx, logger) })
	logged, warned := "", "" // an error, and the version whose warnings were logged
	take := func(s *Snapshot, err error) {
		if err != nil {
			l.reject(err)
		} else {
			before, old := l.Applied(), l.Current()
			if err = l.Set(s); err == nil {
				switch {
				case l.Applied() != before:
					logger.Info("config applied", "name", s.Name(), "version", s.Version(), "rules", len(s.content.Rules),
						"changes", brief.List(Diff(old, s), maxChangesShown, "; "))
				case logged != "":
					logger.Info("config is valid again, and what is in force", "name", s.Name(), "version", s.Version())
				}
				logged = ""
				if version := s.Version(); version != warned {
					warned = version
					warn(s, logger)
				}
				return
			}
		}
		if text := err.Error(); text != logged {
			logged = text
			logger.Error("config refused, the last good one stays", "error", text, "current", l.Current().Version())
		}
	}
	for retry := minRetry; ; retry = min(2*retry, maxRetry) {
		s, err := source.Load(ctx)
		if ctx.Err() != nil {
			return
		}
		take(s, err)
		began := time.Now()
		err = source.Watch(ctx, take)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the source stopped watching")
		}
		take(nil, err)
		if time.Since(began) > maxRetry {
			retry = minRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// lookAgain is how often followClock looks at the wall clock while an Override holds: the
// clock may be set, and timers do not see that.
const lookAgain = time.Second

// followClock ends Overrides when their time has come, until ctx ends.
func (l *Live) followClock(ctx context.Context, logger *slog.Logger) {
	for {
		ended, next := l.endOverrides()
		for i := range ended {
			logger.Info("an override has ended", "of", ended[i].Name(), "override", ended[i].String())
		}
		var timer <-chan time.Time // none without an Override
		if !next.IsZero() {
			timer = time.After(min(max(next.Sub(now()), 0), lookAgain))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.moved:
		case <-timer:
		}
	}
}

// warn logs what in s is legal and surely not meant, and which Overrides change nothing
// although they have not ended.
func warn(s *Snapshot, logger *slog.Logger) {
	warnings := s.Warnings()
	for _, w := range warnings[:min(len(warnings), maxChangesShown)] {
		line, _, _ := strings.Cut(w.Error(), "\n") // without the source
		logger.Warn("likely mistake in the limits", "warning", line)
	}
	if more := len(warnings) - maxChangesShown; more > 0 {
		logger.Warn("more likely mistakes in the limits; headgate limits check names all", "more", more)
	}
	states := s.OverrideStates(now())
	for i := range states {
		if o := &states[i]; o.Idle != "" {
			logger.Warn("an override changes nothing", "of", o.Name(), "because", o.Idle)
		}
	}
}

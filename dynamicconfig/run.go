// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// How long Run waits before it tries again a source that cannot watch.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// Run keeps l at what source has, until ctx ends. Each change is logged in one
// line, which names at most ten of the rules that changed. What is broken is
// counted, kept as LastError and logged once for each different error; the last
// good snapshot stays current. A nil logger logs nothing. A process has one Run
// for one Live.
func (l *Live) Run(ctx context.Context, source Source, logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	logged := ""
	take := func(s *Snapshot, err error) {
		if err != nil {
			l.reject(err)
		} else {
			before, old := l.Applied(), l.Current()
			if err = l.Set(s); err == nil {
				logged = ""
				if l.Applied() != before {
					logger.Info("config applied", "name", s.Name(), "version", s.Version(), "rules", len(s.rules),
						"changes", list(Diff(old, s), maxChangesShown, "; "))
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

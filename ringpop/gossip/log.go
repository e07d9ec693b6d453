// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"
)

// logWriter takes memberlist's lines, each beginning with its level. What memberlist
// calls an error is the failure of one connection or packet, which
// probes of a dead host have too: a Members logs what follows from it.
type logWriter struct {
	log   *slog.Logger
	quota *quota
}

var levels = []struct {
	prefix string
	level  slog.Level
}{
	{"[ERR]", slog.LevelInfo},
	{"[WARN]", slog.LevelInfo},
	{"[INFO]", slog.LevelDebug},
	{"[DEBUG]", slog.LevelDebug},
}

// maxLine is the most of a line that is logged, in bytes: packets of others are in it.
const maxLine = 500

// Write logs one line, unless there were many.
func (w logWriter) Write(line []byte) (int, error) {
	n, level := len(line), slog.LevelInfo
	line = bytes.TrimSpace(line)
	for _, l := range levels {
		if rest, ok := bytes.CutPrefix(line, []byte(l.prefix)); ok {
			line, level = bytes.TrimSpace(rest), l.level
			break
		}
	}
	line = bytes.TrimPrefix(line, []byte("memberlist: "))
	attrs := []any{"said", string(line[:min(len(line), maxLine)])}
	if level >= slog.LevelInfo {
		withheld, ok := w.quota.admit(time.Now())
		if !ok {
			return n, nil
		}
		if withheld > 0 {
			attrs = append(attrs, "withheld", withheld)
		}
	}
	w.log.Log(context.Background(), level, "gossip", attrs...)
	return n, nil
}

// quota bounds the lines that other hosts, and strangers, have this one log. It is safe
// for concurrent use.
type quota struct {
	most  int           // lines in a period
	every time.Duration // the length of a period

	mu       sync.Mutex // protects following fields
	end      time.Time  // of the period under way
	logged   int        // lines in it
	withheld int        // lines since the last that was logged
}

// admit reports whether to log a line at now, and how many were withheld before it.
func (q *quota) admit(now time.Time) (withheld int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if !now.Before(q.end) {
		q.end, q.logged = now.Add(q.every), 0
	}
	if q.logged == q.most {
		q.withheld++
		return 0, false
	}
	q.logged++
	withheld, q.withheld = q.withheld, 0
	return withheld, true
}

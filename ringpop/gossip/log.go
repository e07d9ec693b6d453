// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
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
	withheld := 0
	if level >= slog.LevelInfo {
		var ok bool
		if withheld, ok = w.quota.admitOf(causeOf(line), time.Now()); !ok {
			return n, nil
		}
	}
	attrs := []any{"said", string(line[:min(len(line), maxLine)])}
	if withheld > 0 {
		attrs = append(attrs, "withheld", withheld)
	}
	w.log.Log(context.Background(), level, "gossip", attrs...)
	return n, nil
}

// causeOf is a line up to what others chose, which is in quotes, and without what connections
// and packets of one cause have of their own: words with numbers, such as addresses.
func causeOf(line []byte) string {
	chosen, _, _ := bytes.Cut(line[:min(len(line), maxLine)], []byte(`"`))
	cause := make([]byte, 0, maxLine)
	for word := range bytes.FieldsSeq(chosen) {
		if !bytes.ContainsAny(word, "0123456789") {
			cause = append(append(cause, word...), ' ')
		}
	}
	return string(cause)
}

// quota bounds the lines that other hosts, and strangers, have this one log. It is safe
// for concurrent use.
type quota struct {
	most  int           // lines in a period
	every time.Duration // the length of a period

	mu       sync.Mutex           // protects following fields
	end      time.Time            // of the period under way
	logged   int                  // lines in it
	withheld int                  // lines since the last that was logged
	causes   map[string]time.Time // of lines of late, and when each was logged
}

// quotas are those of each kind of line: what memberlist says, hosts that are not on the ring, and hosts in conflict.
type quotas struct{ said, unfit, conflicts quota }

func newQuotas() quotas {
	return quotas{said: quota{most: 10, every: time.Second}, unfit: quota{most: 10, every: time.Minute}, conflicts: quota{most: 10, every: time.Minute}}
}

// admit reports whether to log a line at now, and how many were withheld before it.
func (q *quota) admit(now time.Time) (withheld int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.admitLocked(now)
}

// admitOf is admit for a line with a cause, which is logged at most once in a period.
func (q *quota) admitOf(cause string, now time.Time) (withheld int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if at, found := q.causes[cause]; found && now.Sub(at) < q.every {
		q.withheld++
		return 0, false
	}
	if withheld, ok = q.admitLocked(now); !ok {
		return 0, false
	}
	maps.DeleteFunc(q.causes, func(_ string, at time.Time) bool { return now.Sub(at) >= q.every })
	if q.causes == nil {
		q.causes = make(map[string]time.Time)
	}
	q.causes[cause] = now
	return withheld, true
}

func (q *quota) admitLocked(now time.Time) (withheld int, ok bool) {
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

// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
)

// liveHeap is how much memory is in use, without garbage.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// statedBound is how much memory all that strangers say may take: what the
// documentation bounds, with names of meanName bytes.
func statedBound() uint64 {
	const (
		keys     = ownedKeys * (meanName + 4096)              // max_owned_keys
		pairs    = ownedKeys * hostsPerKey * (128 + meanName) // max_hosts_per_key: a row, and the host's name
		bands    = ownedKeys * hostsPerKey * 16 * 128         // what each host wants, by priority
		takes    = 2 * 16 << 20                               // that an owner and an edge remember, and
		callers  = 2 * 1 << 14 * (128 + 128*16)               // whose they are
		gossip   = 4096*(128+meanName) + 2*4096*128           // senders, and what each said of two keys
		told     = 16 * 2 * 8192 * (128 + meanName)           // what an edge was told of keys
		underway = 64 << 20                                   // forty messages, on both sides, and pooled memory
	)
	return keys + pairs + bands + takes + callers + gossip + told + underway
}

// hostileLog counts lines by their text, and all bytes.
type hostileLog struct {
	mu    sync.Mutex // protects following fields
	count map[string]int
	bytes int
	wrong []string
}

func (l *hostileLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}
func (l *hostileLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *hostileLog) WithGroup(string) slog.Handler      { return l }

func (l *hostileLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[r.Message]++
	if !strings.HasPrefix(r.Message, "config") { // the service's own doing
		l.bytes += len(line)
	}
	if strings.Contains(line, "runtime error") || r.Level >= slog.LevelError && !strings.Contains(line, "the cluster above") && !strings.HasPrefix(line, "config") {
		l.wrong = append(l.wrong, line)
	}
	return nil
}

// room fails if the owner has more than it may.
func (h *hostile) room() {
	for name, most := range map[string]float64{"keys": ownedKeys, "hosts": ownedKeys * hostsPerKey} {
		if g, ok := h.scope.Snapshot().Gauges()["headgate.aggregator."+name+"+"]; !ok || g.Value() > most {
			h.Errorf("%s: %v, at most %v", name, g, most)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Live holds the ring of the hosts that are there now. It is safe for
// concurrent use; reading it takes no lock. The zero Live is an empty ring
// with DefaultPoints for each host.
type Live struct {
	points int
	log    *slog.Logger // nil means slog.Default

	// ring is nil until the first list. Rings never change, so that loading
	// one is all the ordering a reader needs.
	ring atomic.Pointer[Ring]

	mu sync.Mutex // held while a ring replaces the one it was made from
}

// Option sets a collaborator of a Live.
type Option func(*Live)

// WithLogger makes Run log to l. Default: slog.Default().
func WithLogger(l *slog.Logger) Option { return func(live *Live) { live.log = l } }

// NewLive returns an empty ring with so many points for each host to come;
// 0 means DefaultPoints. Points that New refuses are refused by Set and Run.
func NewLive(points int, options ...Option) *Live {
	l := &Live{points: points}
	for _, o := range options {
		o(l)
	}
	return l
}

// none is what a Live has before its first list.
var none = &Ring{}

// Ring returns the current ring, never nil. A caller that looks up many keys
// which belong together does so on one Ring.
func (l *Live) Ring() *Ring {
	if r := l.ring.Load(); r != nil {
		return r
	}
	return none
}

// Owner returns the address of the host that now owns key, or "" when there
// are no hosts.
func (l *Live) Owner(key string) string { return l.Ring().Owner(key) }

// Set replaces all hosts. A list that Validate refuses is an error,
// and leaves the ring as it was.
func (l *Live) Set(hosts []Host) error {
	_, _, err := l.set(hosts)
	return err
}

// set also returns the rings before and after, the same when nothing changed.
func (l *Live) set(hosts []Host) (before, after *Ring, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.ring.Load()
	if before == nil {
		// Only here are the points checked, by New.
		before = none
		after, err = New(hosts, l.points)
	} else {
		after, err = before.Replace(hosts)
	}
	if err != nil {
		return before, before, err
	}
	l.ring.Store(after)
	return before, after, nil
}

// Run follows members until ctx ends, then returns nil; it returns an error
// when they cannot be watched. A list that Set refuses is logged, and the
// ring stays as it was until the next.
//
// After each change that Run makes it calls changed, which may be nil, with
// the rings before and after it, one call at a time. The new ring is already
// in use then. The next list waits until changed returns.
func (l *Live) Run(ctx context.Context, members Members, changed func(old, new *Ring)) error {
	return members.Watch(ctx, func(hosts []Host) {
		before, after, err := l.set(hosts)
		if err != nil {
			l.logger().WarnContext(ctx, "list of hosts refused, the ring stays as it was",
				"error", err, "listed", len(hosts), "hosts", before.Len())
			return
		}
		// The first list makes another ring even when it is empty.
		if changed != nil && before != after && before.Len()+after.Len() > 0 {
			changed(before, after)
		}
	})
}

func (l *Live) logger() *slog.Logger {
	if l.log == nil {
		return slog.Default()
	}
	return l.log
}

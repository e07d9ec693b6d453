// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	// owesFor is how long a key that is gone goes on sending what its remote
	// bucket has not heard. After that, a bucket with a usual limit is full
	// again anyway.
	owesFor = 10 * time.Minute

	// maxOwing bounds the keys that are gone and do so.
	maxOwing = 1 << 16
)

// owing is stages that no key decides by any more, whose remote buckets have
// not heard of everything yet. Safe for concurrent use; its lock comes last.
type owing struct {
	mu    sync.Mutex // protects until
	until map[*remote.Stage]stage.Instant
}

// RemoteOwes implements remote.Host.
func (g *Group) RemoteOwes(now stage.Instant, s *remote.Stage) { g.owing.add(now, s) }

// leave says that p leaves its key.
func leave(now stage.Instant, p share.Part) {
	if s := remoteOf(p); s != nil {
		s.Leave(now)
	}
}

func (o *owing) add(now stage.Instant, s *remote.Stage) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if _, ok := o.until[s]; ok || len(o.until) >= maxOwing {
		return
	}
	if o.until == nil {
		o.until = make(map[*remote.Stage]stage.Instant)
	}
	o.until[s] = now.Add(owesFor)
}

// all are the stages, by key.
func (o *owing) all() []*remote.Stage {
	o.mu.Lock()
	defer o.mu.Unlock()

	return slices.SortedFunc(maps.Keys(o.until), func(a, b *remote.Stage) int { return strings.Compare(a.Key(), b.Key()) })
}

// flush sends what is owed, unless that failed lately, and forgets the stages
// that owe nothing.
func (o *owing) flush(now stage.Instant) {
	for _, s := range o.all() {
		s.FlushLater(now)
	}
	o.mu.Lock()
	defer o.mu.Unlock()

	maps.DeleteFunc(o.until, func(s *remote.Stage, until stage.Instant) bool { return !s.Owes() || now >= until })
	if len(o.until) == 0 {
		o.until = nil
	}
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

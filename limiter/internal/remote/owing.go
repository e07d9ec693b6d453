// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

const (
	// owesFor is how long a stage that has left its key goes on sending what its
	// remote bucket is owed. After that time, the bucket of a usual limit would be
	// full again.
	owesFor = 10 * time.Minute

	// maxOwing bounds the stages that do so.
	maxOwing = 1 << 16
)

// owing is the stages that no key uses any more, and that still owe their remote
// buckets something. The zero owing has none. It is safe for
// concurrent use and calls nothing while its lock is held.
type owing struct {
	mu    sync.Mutex // protects until
	until map[*Stage]stage.Instant
}

// add adds s, unless there are too many.
func (o *owing) add(now stage.Instant, s *Stage) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if _, ok := o.until[s]; ok || len(o.until) >= maxOwing {
		return
	}
	if o.until == nil {
		o.until = make(map[*Stage]stage.Instant)
	}
	o.until[s] = now.Add(owesFor)
}

// all are the stages, by key.
func (o *owing) all() []*Stage {
	o.mu.Lock()
	defer o.mu.Unlock()

	return slices.SortedFunc(maps.Keys(o.until), func(a, b *Stage) int { return strings.Compare(a.Key(), b.Key()) })
}

// tidy forgets stages that owe nothing any more.
func (o *owing) tidy(now stage.Instant) {
	o.mu.Lock()
	defer o.mu.Unlock()

	maps.DeleteFunc(o.until, func(s *Stage, until stage.Instant) bool { return !s.Owes() || now >= until })
	if len(o.until) == 0 {
		o.until = nil
	}
}

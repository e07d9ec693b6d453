// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/internal/fit"
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

// owing is the stages that owe their remote buckets something. The zero owing has none. It
// is safe for concurrent use and calls nothing while its lock is held.
type owing struct {
	mu  sync.Mutex         // protects following fields
	all []debtor           // those whose Stage is listed, in the order in which they began to owe
	of  map[account]*Stage // the last of these that owes the bucket
}

// account is a bucket elsewhere.
type account struct{ under, key string }

// debtor is one of an owing.
type debtor struct {
	*Stage
	until stage.Instant // the end of owesFor; 0 while a key decides by the Stage
}

// add adds s, which is not listed yet.
func (o *owing) add(s *Stage) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.all = append(o.all, debtor{Stage: s})
	if o.of == nil {
		o.of = make(map[account]*Stage)
	}
	o.of[account{s.under, s.Key()}] = s
}

// before is the Stage that has left its key, and owes the bucket of s something; nil if there is none.
func (o *owing) before(s *Stage) *Stage {
	o.mu.Lock()
	defer o.mu.Unlock()

	if d := o.of[account{s.under, s.Key()}]; d != nil && d.gone.Load() {
		return d
	}
	return nil
}

// stages are those that owe something.
func (o *owing) stages() []*Stage {
	o.mu.Lock()
	defer o.mu.Unlock()

	all := make([]*Stage, len(o.all))
	for i, d := range o.all {
		all[i] = d.Stage
	}
	return all
}

// tidy forgets stages that owe nothing any more, and those that have left their keys if
// they have owed for too long, or if there are too many.
func (o *owing) tidy(now stage.Instant) {
	o.mu.Lock()
	defer o.mu.Unlock()

	left := 0
	kept := o.all[:0]
	for _, d := range o.all {
		if d.tidy(now, &left) {
			kept = append(kept, d)
		} else if of := (account{d.under, d.Key()}); o.of[of] == d.Stage {
			delete(o.of, of)
		}
	}
	clear(o.all[len(kept):])
	o.all = fit.Slice(kept)
}

// tidy reports whether d stays listed. left counts those that have left their keys.
func (d *debtor) tidy(now stage.Instant, left *int) bool {
	switch {
	case !d.Owes():
		// It is listed again if it owes something from here on.
		d.listed.Store(false)
		return d.Owes() && d.listed.CompareAndSwap(false, true)
	case !d.gone.Load():
		return true
	case d.until == 0:
		d.until = now.Add(owesFor)
	}
	if *left++; *left > maxOwing || now >= d.until {
		d.listed.Store(false)
		return false
	}
	return true
}

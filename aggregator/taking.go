// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator/internal/hosts"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// StepTakes is Update for usage.TakesTypeURL at now. Time is as in Step.
func (a *Aggregator) StepTakes(now time.Duration, host string, payload *anypb.Any) (*anypb.Any, error) {
	answer, repeated, err := a.batches.Serve(now, host, payload)
	if repeated {
		a.metrics.repeated.Inc(1)
	}
	if err != nil {
		if errors.Is(err, rpc.ErrPayload) {
			a.refuse(host, "takes", err)
		}
		return nil, fmt.Errorf("aggregator: takes from %q: %w", host, err)
	}
	return answer, nil
}

// Take serves takes of host, which passed Check, at now, and puts the answers into
// taken. The Tokens of each row become what it took, so that it can be undone.
// Keys that are not for a bucket here, for want of a rule or of room, are not
// decided. Time is as in Step.
func (a *Aggregator) Take(now time.Duration, host string, takes *usage.Takes, taken *usage.Taken) {
	taken.By = a.number
	taken.Rows = taken.Rows[:0]
	id := a.keys.Hosts.Acquire(host)
	defer a.keys.Hosts.Add(id, -1)
	for i := range takes.Rows {
		t, took := &takes.Rows[i], usage.Took{}
		if a.handed(now, host, t) {
			took = a.take(now, id, t)
		} else {
			t.Tokens = 0
		}
		taken.Rows = append(taken.Rows, took)
	}
	a.metrics.takes.Inc(int64(len(takes.Rows)))
}

// TakeHere implements ask.Here: it is Take for one row of this process, which is
// host. It returns the owner's number too.
func (a *Aggregator) TakeHere(host string, t usage.Take) (usage.Took, uint32) {
	a.metrics.takes.Inc(1)
	id := a.keys.Hosts.Acquire(host)
	defer a.keys.Hosts.Add(id, -1)
	return a.take(Now(), id, &t), a.number
}

// take serves t, of host.
func (a *Aggregator) take(now time.Duration, host uint32, t *usage.Take) usage.Took {
	hash := a.keys.Table.Hash(t.Key)
	sh := a.keys.Table.Shard(hash)
	now = sh.Lock(now)
	defer sh.Unlock()

	k := a.keys.Taking(now, sh, a.settings.Load(), hash, t)
	if k == nil || a.left.Load() {
		a.metrics.undecided.Inc(1)
		t.Tokens = 0
		return usage.Took{}
	}
	return k.Take(now, t, a.number, host)
}

// undo gives back what rows took. What was lent beside it comes back with the host's
// next report.
func (a *Aggregator) undo(now time.Duration, rows []usage.Take) {
	for i := range rows {
		if rows[i].Tokens != 0 {
			back := rows[i].Opposite(&usage.Took{OK: true})
			a.take(now, hosts.None, &back)
		}
	}
}

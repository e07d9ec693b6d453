// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator/internal/hosts"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/batches"
)

// StepTakes is Update for usage.TakesTypeURL at now. Time is as in Step.
func (c *Core) StepTakes(ctx context.Context, now time.Duration, host string, payload *anypb.Any) (*anypb.Any, error) {
	m := scratches.Get().(*scratch) //nolint:errcheck // nothing else is put there
	defer scratches.Put(m)

	if err := usage.DecodeTakes(payload, &m.takes); err != nil {
		c.refuse(now, host, "takes", err)
		return nil, fmt.Errorf("aggregator: takes from %q: %w", host, err)
	}
	undo := func(rows []usage.Take) { c.undo(now, rows) }
	for _, number := range m.takes.Withdrawn {
		rows, _ := c.batches.Withdraw(now, m.takes.Caller, number)
		undo(rows)
	}
	answer, again, err := c.batches.Serve(ctx, now, &m.takes, func() ([]usage.Take, *anypb.Any, error) {
		c.Take(now, host, &m.takes, &m.taken)
		answer, err := usage.EncodeTaken(&m.taken, len(m.taken.Rows))
		return batches.Opposites(m.takes.Rows, nil), answer, err
	}, undo)
	if again {
		c.metrics.repeated.Inc(1)
	}
	if err != nil {
		return nil, fmt.Errorf("aggregator: takes from %q: %w", host, err)
	}
	return answer, nil
}

// Take serves takes of host, which passed Check, at now, and puts the answers into
// taken. The Tokens of each row become what it took, so that it can be undone.
// Keys that are not for a bucket here, for want of a rule or of room, are not
// decided. Time is as in Step.
func (c *Core) Take(now time.Duration, host string, takes *usage.Takes, taken *usage.Taken) {
	taken.By = c.number
	taken.Rows = taken.Rows[:0]
	id := c.keys.Hosts.Acquire(host)
	defer c.keys.Hosts.Add(id, -1)
	for i := range takes.Rows {
		t, took := &takes.Rows[i], usage.Took{}
		if c.handed(now, host, t) {
			took = c.take(now, id, t)
		} else {
			t.Tokens = 0
		}
		taken.Rows = append(taken.Rows, took)
	}
	c.metrics.takes.Inc(int64(len(takes.Rows)))
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
func (c *Core) take(now time.Duration, host uint32, t *usage.Take) usage.Took {
	hash := c.keys.Table.Hash(t.Key)
	sh := c.keys.Table.Shard(hash)
	now = sh.Lock(now)
	defer sh.Unlock()

	var took usage.Took
	if k := c.keys.Taking(now, sh, c.settings.Load(), hash, t); k != nil && !c.keys.Left.Load() {
		took = k.Take(now, t, c.number, host)
	}
	if !took.Decided {
		c.metrics.undecided.Inc(1)
		t.Tokens = 0
	}
	return took
}

// undo takes rows, which are the opposites of what was taken. What was lent beside that
// comes back with the host's next report.
func (c *Core) undo(now time.Duration, rows []usage.Take) {
	for _, row := range rows {
		c.take(now, hosts.None, &row)
	}
}

// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator/internal/hosts"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
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
	id := a.hosts.Acquire(host)
	defer a.hosts.Add(id, -1)
	for i := range takes.Rows {
		taken.Rows = append(taken.Rows, a.take(now, id, &takes.Rows[i]))
	}
	a.metrics.takes.Inc(int64(len(takes.Rows)))
}

// TakeHere implements ask.Here: it is Take for one row of this process, which is
// host. It returns the owner's number too.
func (a *Aggregator) TakeHere(host string, t usage.Take) (usage.Took, uint32) {
	a.metrics.takes.Inc(1)
	id := a.hosts.Acquire(host)
	defer a.hosts.Add(id, -1)
	return a.take(Now(), id, &t), a.number
}

// take serves t, of host.
func (a *Aggregator) take(now time.Duration, host uint32, t *usage.Take) usage.Took {
	hash := a.table.Hash(t.Key)
	sh := a.table.Shard(hash)
	now = sh.Lock(now)
	defer sh.Unlock()

	k := a.taking(sh, now, hash, t)
	if k == nil || a.left.Load() {
		a.metrics.undecided.Inc(1)
		t.Tokens = 0
		return usage.Took{}
	}
	return k.Take(now, t, a.number, host)
}

// taking finds or makes the key that t is from in sh, which is locked; nil if
// there is none.
func (a *Aggregator) taking(sh *shard, now time.Duration, hash uint64, t *usage.Take) *owned.Key {
	s := a.settings.Load()
	name := algorithm.NameExact
	if t.Auto {
		name = algorithm.NameAuto
	}
	rule, name, ok := s.Taken(t.Key, name)
	if !ok {
		return nil
	}
	b := sh.Book(name)
	k := b.Find(hash, t.Key)
	if k == nil {
		if a.arrive(now, sh, s, name, hash, t.Key) {
			k = b.Find(hash, t.Key)
		}
		if k == nil {
			return a.newTaking(b, s, now, rule, name, hash, t.Key)
		}
	}
	if !a.adopt(now, sh, k, s, name, hash) {
		return nil
	}
	return k
}

// newTaking makes a key and puts it into b, if there is room.
func (a *Aggregator) newTaking(b *book, s *rules.Settings, now time.Duration, rule *dynamicconfig.Rule, name string, hash uint64, text string) *owned.Key {
	quota := s.Quota(rule.Key, name)
	if !quota.Enter(rule.MaxKeys) {
		a.metrics.noRoom.Inc(1)
		return nil
	}
	c, err := s.Config(rule, name)
	if err == nil { // else this owner does not know it
		k, err := a.newKey(b, s, c, hash, text, now)
		if err == nil && k != nil {
			return k
		}
	}
	quota.Add(-1)
	return nil
}

// undo gives back what rows took. What was lent beside it comes back with the host's
// next report.
func (a *Aggregator) undo(now time.Duration, rows []usage.Take) {
	for _, row := range rows {
		if row.Tokens == 0 {
			continue
		}
		back := usage.Take{Key: row.Key, Auto: row.Auto, Tokens: -row.Tokens}
		if back.Tokens > 0 { // it had given them back
			back.Spent = usage.SpentBeyond
		}
		a.take(now, hosts.None, &back)
	}
}

// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/rpc/internal/fan"
	"github.com/headgate/headgate/rpc/usage"
)

// unhurried is how long a call of TakeAll may take at least. No caller waits for its answer,
// and a large call takes an owner longer than one event does.
const unhurried = 250 * time.Millisecond

// TakeAll is TakeWithin of many takes that no event waits for. They do not wait for others to
// share their calls: takes from one owner go in as few calls as have room for them, one
// after another. It calls done once for each take, on the caller's goroutine, and returns
// after the last. If a call fails, the later takes from its owner fail too.
func (t *Taker) TakeAll(ctx context.Context, takes []usage.Take, timeout time.Duration, done func(i int, took usage.Took, err error)) {
	var rows []int // of takes that are valid
	for i := range takes {
		if err := takes[i].Check(0); err != nil {
			done(i, usage.Took{}, err)
			continue
		}
		t.fillSpent(&takes[i])
		rows = append(rows, i)
	}
	parts := fan.Split(len(rows), takesPerCall, t.Placement,
		func(i int) string { return takes[rows[i]].Key }, func(i int) int { return len(takes[rows[i]].Key) })
	var owners []string // in the order of parts
	byOwner := make(map[string][]fan.Part)
	for _, p := range parts {
		if byOwner[p.Owner] == nil {
			owners = append(owners, p.Owner)
		}
		byOwner[p.Owner] = append(byOwner[p.Owner], p)
	}
	timeout = max(t.orDefault(timeout), unhurried)
	ask := func(i int) ([]waiting, error) { return t.takeParts(ctx, takes, rows, byOwner[owners[i]], timeout), nil }
	record := func(i int, answers []waiting, _ error) {
		for _, p := range byOwner[owners[i]] {
			for _, row := range p.Rows {
				w := &answers[0]
				answers = answers[1:]
				took, err := t.ended(&w.take, w.took, w.err, ctx.Err() == nil)
				done(rows[row], took, err)
			}
		}
	}
	if t.simulation == nil {
		fan.Each(len(owners), ask, record)
		return
	}
	for i := range owners {
		answers, err := ask(i)
		record(i, answers, err)
	}
}

// takeParts asks one owner for parts of rows of takes. The answers are in the order of the
// parts.
func (t *Taker) takeParts(ctx context.Context, takes []usage.Take, rows []int, parts []fan.Part, timeout time.Duration) (answers []waiting) {
	var failed error
	for _, p := range parts {
		from := len(answers)
		for _, row := range p.Rows {
			answers = append(answers, waiting{take: takes[rows[row]], err: failed})
		}
		some := answers[from:]
		switch {
		case failed != nil:
		case p.Owner == "" || t.Local != nil && p.Owner == t.Self:
			for i := range some {
				some[i].took, some[i].err = t.take(ctx, some[i].take, timeout)
			}
		default:
			failed = t.callAll(queueID{p.Owner, timeout}, some)
		}
	}
	return answers
}

// callAll makes one call of all, which go to the owner of id.
func (t *Taker) callAll(id queueID, all []waiting) (err error) {
	var b *takeBatch
	q := t.queues.queue(id, t)
	for b, err = q.batch(t, all); errors.Is(err, errForgotten); b, err = q.batch(t, all) {
		q = t.queues.queue(id, t)
	}
	if err != nil {
		for i := range all {
			all[i].err = err
		}
		return err
	}
	q.call(context.Background(), t, b, nil)
	return all[0].err
}

// batch is a call of all; an error if the owner is not to be asked now.
func (q *takeQueue) batch(t *Taker, all []waiting) (*takeBatch, error) {
	waiters := make([]*waiting, len(all))
	for i := range all {
		waiters[i] = &all[i]
	}
	now := t.now()
	q.mu.Lock()
	defer q.mu.Unlock()

	switch {
	case q.forgotten:
		return nil, errForgotten
	case !q.breaker.Ready(now):
		return nil, q.silent
	}
	return q.batchLocked(t, now, waiters), nil
}

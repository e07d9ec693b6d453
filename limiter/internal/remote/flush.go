// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"slices"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// FlushLater sends the charges of all Stages, except of those whose latest send failed less than retryEvery
// ago. Charges to Remotes that take them for many keys at a time share calls.
func (h *Hub) FlushLater(now stage.Instant) {
	due := slices.DeleteFunc(h.backlog.Stages(), func(s *Stage) bool { return s.waits(now) })
	for _, s := range h.flushTogether(now, due) {
		s.Flush(now)
	}
	h.backlog.Tidy(now)
}

// Flush is FlushLater, also soon after a failure: as many at a time as may run in the
// background. It waits until all have ended. If no remote answers, Flush gives up.
func (h *Hub) Flush() {
	h.Join() // what is under way may leave no room, or fail
	now := stage.Now()
	alone := h.flushTogether(now, h.backlog.Stages())
	for len(alone) > 0 {
		h.Join()
		some := alone[:min(len(alone), h.running.Most())]
		alone = alone[len(some):]
		for _, s := range some {
			s.Flush(now)
		}
		h.Join()
		if !slices.ContainsFunc(some, func(s *Stage) bool { return !s.HasUnsent() }) {
			break
		}
	}
	h.Join()
}

// flushTogether sends the charges of those stages whose Remotes take charges of many keys at a
// time, and returns the other stages.
func (h *Hub) flushTogether(now stage.Instant, stages []*Stage) (alone []*Stage) {
	if len(stages) == 0 { // as is usual
		return nil
	}
	together := make(map[string][]*Stage, len(h.config.Charges)) // by algorithm
	for _, s := range stages {
		switch {
		case h.config.Charges[s.under] == nil:
			alone = append(alone, s)
		case s.begin():
			together[s.under] = append(together[s.under], s)
		}
	}
	for under, some := range together {
		if !h.run(h.batches, func() { sendAll(now, h.config.Charges[under], some) }) {
			for _, s := range some {
				s.outbox.End(nil)
			}
		}
	}
	return alone
}

// sendAll sends the charges of stages. The caller has begun each.
func sendAll(now stage.Instant, to stage.Charges, stages []*Stage) {
	defer func() { // also if Charges end this goroutine
		for _, s := range stages {
			s.end(now, nil)
		}
	}()
	for range atOnce {
		next := stages
		stages = nil
		sendNext(now, to, next, func(s *Stage) { stages = append(stages, s) })
	}
}

// sendNext sends the next Operation of each of stages. It ends those that have nothing more to send or
// got no answer, and calls more with each of the others.
func sendNext(now stage.Instant, to stage.Charges, stages []*Stage, more func(*Stage)) {
	ops, sent := make([]stage.Operation, 0, len(stages)), stages[:0]
	for _, s := range stages {
		if op := s.next(); op != nil {
			ops, sent = append(ops, *op), append(sent, s)
		} else {
			s.end(now, nil)
		}
	}
	if len(ops) == 0 {
		return
	}
	elsewhere.DoAll(to, ops, func(i int, _ stage.Outcome, err error) {
		if elsewhere.Panicked(err) {
			sent[i].host.failures.Panicked(ops[i].Rule.Shown(ops[i].Key), err)
		}
		if failed := sent[i].record(now, err); failed != nil || !sent[i].HasUnsent() {
			sent[i].end(now, failed)
		} else {
			more(sent[i])
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Steps are what a Loop drives. They are safe for concurrent use.
type Steps interface {
	Report(now stage.Instant) []*report.Batch
	Early(now stage.Instant) []*report.Batch
	Apply(now stage.Instant, b *report.Batch, rows []int, grants *usage.Grants) error
	Fail(now stage.Instant, b *report.Batch, rows []int)
	Done(b *report.Batch)
}

// Loop reports every interval, and early what cannot wait. Its fields do not
// change once it runs.
type Loop struct {
	Steps    Steps
	Reporter *report.Reporter
	Updater  usage.Updater
	Log      *slog.Logger

	// Answered and Unanswered count the keys in reports.
	Answered, Unanswered tally.Counter

	failingMu sync.Mutex        // protects following fields
	failing   map[reported]bool // what was not answered last time
	panicked  stage.Instant     // when a panic was logged last
}

// reported is whose keys a report is about, and under which algorithm: an owner of another release may
// answer reports of one algorithm alone.
type reported struct{ owner, algorithm string }

// Run reports until ctx ends, and returns when all calls have. It starts at a
// random point of the first interval, so that hosts do not report in step.
func (l *Loop) Run(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	interval := l.Reporter.Interval
	next := stage.Now().Add(time.Duration(rand.Int64N(int64(interval()))))
	for l.sleep(ctx, &next) == nil {
		if now := stage.Now(); now < next {
			l.send(ctx, l.Steps.Early(now), &calls)
			continue
		}
		l.send(ctx, l.Steps.Report(stage.Now()), &calls)
		if next = next.Add(interval()); next <= stage.Now() {
			// A host that was suspended does not catch up on missed rounds.
			next = stage.Now().Add(interval())
		}
	}
}

// sleep waits until next or until an early report is due. If the interval
// becomes shorter meanwhile, next becomes earlier.
func (l *Loop) sleep(ctx context.Context, next *stage.Instant) error {
	for {
		*next = min(*next, stage.Now().Add(l.Reporter.Interval()))
		until := min(*next, l.Reporter.Due())
		if wait := until.Sub(stage.Now()); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.Reporter.Wake():
				continue
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
}

// send carries batches to the owners and applies what is answered in time.
// An owner that does not answer costs only its own keys: the others' grants are
// applied as they come. send does not wait; calls does.
func (l *Loop) send(ctx context.Context, batches []*report.Batch, calls *sync.WaitGroup) {
	timeout := l.Reporter.Timeout()
	for _, b := range batches {
		calls.Go(func() {
			defer l.recover(b)
			l.Updater.Update(ctx, &b.Usage, timeout, func(part usage.Part, grants *usage.Grants, err error) {
				if err == nil {
					err = l.Steps.Apply(stage.Now(), b, part.Rows, grants)
				}
				if err != nil {
					l.Steps.Fail(stage.Now(), b, part.Rows)
				}
				if err == nil || ctx.Err() == nil { // otherwise this host stops, which says nothing of the owner
					l.note(b, part, err)
				}
			})
			l.Steps.Done(b)
		})
	}
}

// SendLast carries the last batches to the owners, and waits for the answers, which it counts
// and does not apply.
func (l *Loop) SendLast(ctx context.Context, batches []*report.Batch) {
	var calls sync.WaitGroup
	defer calls.Wait()
	for _, b := range batches {
		calls.Go(func() {
			defer l.recover(b)
			l.Updater.Update(ctx, &b.Usage, l.Reporter.Timeout(), func(part usage.Part, _ *usage.Grants, err error) { l.note(b, part, err) })
		})
	}
}

// recover keeps a panic in an Updater from ending the process. The batch is reported
// again. One panic is logged per interval.
func (l *Loop) recover(b *report.Batch) {
	p := recover()
	if p == nil {
		return
	}
	now := stage.Now()
	l.Steps.Fail(now, b, nil)
	l.Unanswered.Inc(int64(len(b.Usage.Keys)))
	l.failingMu.Lock()
	logs := l.panicked == 0 || now.Sub(l.panicked) >= l.Reporter.Interval()
	if logs {
		l.panicked = now
	}
	l.failingMu.Unlock()
	if logs {
		l.Log.Error("an update panicked; its keys are reported again", "algorithm", b.Usage.Algorithm, "panic", p, "stack", string(debug.Stack()))
	}
}

// note counts and logs how an owner's part of b went. An owner is logged
// when it begins to fail under an algorithm and when it is back, not every time.
func (l *Loop) note(b *report.Batch, part usage.Part, err error) {
	keys := len(part.Rows)
	if part.Rows == nil { // the part is all of b
		keys = len(b.Usage.Keys)
	}
	if err == nil {
		l.Answered.Inc(int64(keys))
	} else {
		l.Unanswered.Inc(int64(keys))
	}
	l.failingMu.Lock()
	of := reported{part.Owner, b.Usage.Algorithm}
	before := l.failing[of]
	if err != nil {
		if l.failing == nil || len(l.failing) > maxFailing {
			l.failing = make(map[reported]bool)
		}
		l.failing[of] = true
	} else {
		delete(l.failing, of)
	}
	l.failingMu.Unlock()

	switch {
	case err != nil && !before:
		attrs := []any{"owner", part.Owner, "algorithm", of.algorithm, "keys", keys, "error", err}
		if stack := rpc.StackOf(err); stack != "" { // of a codec, or of an owner in this process
			attrs = append(attrs, "stack", stack)
		}
		l.Log.Warn("an owner does not answer; its keys keep their grants to the end of the lease, then fall back", attrs...)
	case err == nil && before:
		l.Log.Info("an owner answers again", "owner", part.Owner, "algorithm", of.algorithm)
	}
}

// maxFailing bounds what is remembered as failing.
const maxFailing = 10_000

// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/since"
	"github.com/headgate/headgate/limiter/stage"
)

// Link is what all Stages of a host under one algorithm have in common.
type Link struct {
	remote stage.Remote
	under  string // the algorithm under which remote is asked
	host   *Hub
	level  elsewhere.Level // nil: the remote does not say
}

// line asks a Remote for the key of a Rate, and notes whether that answers.
type line struct {
	counted
	*Link
	failing since.Since // the last event had no answer
	failure since.Since // an operation had no answer, the last time at this second

	mu sync.Mutex // guards what is in force under an Auto, and gone; held too while a change of fallback is reported
}

// Asks reports whether it is asked as t wants.
func (l *line) Asks(t *share.Terms) bool {
	return l.under == t.Algorithm && l.is(measured) == t.Measured
}

// do asks the remote.
func (l *line) do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	o, err := elsewhere.Do(ctx, l.remote, op)
	if l.Heard.Operations.Add(1); elsewhere.Panicked(err) {
		l.host.failures.Panicked(op.Rule.Shown(op.Key), err)
	}
	return o, err
}

// retryEvery is how often charges are sent again to a remote that is not
// asked for anything else.
const retryEvery = 10 * time.Second

// failed notes that do returned err. event says that an event needed the answer. first says that this is the first
// such event since the remote last answered.
func (l *line) failed(now stage.Instant, err error, event bool) (first bool) {
	first = event && l.usesFallback() && !errors.Is(err, stage.ErrBusy) && // this host is busy; the remote may be well
		l.failing.Begin(now)
	l.host.remoteFailed(l.Rate, err, first)
	l.failure.Again(now)
	if first {
		l.fallbackChanged(now, true)
	}
	return first
}

// answers notes that the remote has answered.
func (l *line) answers(now stage.Instant) {
	if !l.failing.End() {
		return
	}
	if l.host.remoteAnswers(l.Rate); l.usesFallback() {
		l.fallbackChanged(now, false)
	}
}

// fallbackChanged reports that the key enters or leaves its fallback, unless no key has l any more.
func (l *line) fallbackChanged(now stage.Instant, entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.is(gone) {
		l.host.config.FallbackChanged(now, l.Common(), entered)
	}
}

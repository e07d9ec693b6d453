// SPDX-License-Identifier: Apache-2.0

// Package guard calls the methods of Owners, and Weighs, which are other people's code. It logs
// the errors and panics of a method. A method that does not return does not hold up the other
// Owners, and a Weigh that does not return does not hold up other keys. The package does not know
// what they do, and it ends no call.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate/headgate/aggregator/internal/pace"
	"github.com/headgate/headgate/rpc"
)

const (
	// returnsWithin is for how long Latest waits for a call.
	returnsWithin = time.Second
	// hangsAfter is how long a call of Latest may take before it is logged. A busy machine
	// is late by less.
	hangsAfter = 10 * time.Second
	// panicsEvery is how often a panic of one method is logged.
	panicsEvery = time.Minute
)

// start is time 0 of the Pacers.
var start = time.Now()

// Guard calls methods. The zero Guard is ready to use. It is safe for concurrent use.
type Guard struct {
	panics sync.Map // to *pace.Pacer, by what panicked
	turns  sync.Map // to *turn, by turnOf
}

// Method is a method of an Owner.
type Method struct {
	Owner  any
	Number int    // of the Owner among the Owners of its host
	Name   string // of the method
	Failed string // continues the log line "an owner of keys …" if the method fails
	Level  slog.Level
	Call   func() error
}

// Latest calls m, and waits until it returns, for a second at most. If an earlier call of
// this method of this Owner still runs, Latest returns at once, and the call follows when
// the earlier one returns. Of several calls that would follow, only the latest does.
func (g *Guard) Latest(log *slog.Logger, m Method) {
	one, _ := g.turns.LoadOrStore(turnOf{m.Number, m.Name}, new(turn))
	done := one.(*turn).begin(func() { //nolint:errcheck // nothing else is stored
		hangs := time.AfterFunc(hangsAfter, func() {
			log.Error("an owner of keys does not return; it gets no more calls of that kind until it does", "type", fmt.Sprintf("%T", m.Owner), "method", m.Name)
		})
		defer hangs.Stop()
		g.call(log, m)
	})
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(returnsWithin):
	}
}

// Until calls m, and waits until it returns or ctx ends.
func (g *Guard) Until(ctx context.Context, log *slog.Logger, m Method) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.call(log, m)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Failed logs that m returned err. Of the panics of one method, it logs one in a minute.
func (g *Guard) Failed(log *slog.Logger, m Method, err error) {
	kind, stack := fmt.Sprintf("%T", m.Owner), rpc.StackOf(err)
	if stack == "" {
		log.Log(context.Background(), m.Level, "an owner of keys "+m.Failed, "type", kind, "error", err)
		return
	}
	every, _ := g.panics.LoadOrStore(kind+" "+m.Failed, new(pace.Pacer))
	if others, ok := every.(*pace.Pacer).Next(time.Since(start), panicsEvery); ok { //nolint:errcheck // nothing else is stored
		log.Error("an owner of keys "+m.Failed, "type", kind, "error", err, "stack", stack, "panics_since_last_line", others)
	}
}

// call calls m, and logs its error. A panic is an error, and so is the end of the goroutine.
func (g *Guard) call(log *slog.Logger, m Method) {
	err := errEnds
	defer func() {
		if err != nil {
			g.Failed(log, m, err)
		}
	}()
	err = safely(m.Call)
}

// errEnds is the error of a method that ended its goroutine.
var errEnds = errors.New("the method ended its goroutine")

// safely calls f, and returns a panic as an error.
func safely(f func() error) (err error) {
	defer rpc.Recovered(&err)
	return f()
}

// turnOf names the calls of which one runs at a time.
type turnOf struct {
	owner  int
	method string
}

// turn runs one call at a time.
type turn struct {
	mu      sync.Mutex // protects following fields
	running bool
	next    func() // follows the call that runs; nil for none
}

// begin calls f, and closes done when f has returned. If an earlier call still runs, f
// follows it, and done is nil.
func (t *turn) begin(f func()) (done chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.running {
		t.next = f
		return nil
	}
	t.running, done = true, make(chan struct{})
	go t.run(f, done)
	return done
}

// run calls f, and then closes done. The call that follows runs next, also if f ends its goroutine.
func (t *turn) run(f func(), done chan struct{}) {
	defer func() {
		next := t.following() // first: whoever waits for done may call again at once
		close(done)
		if next != nil {
			go t.run(next, make(chan struct{}))
		}
	}()
	f()
}

// following is the call that follows the one that has returned; nil for none.
func (t *turn) following() (f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()

	f, t.next = t.next, nil
	t.running = f != nil
	return f
}

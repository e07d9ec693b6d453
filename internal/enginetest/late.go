// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/limiter/stage"
)

// Late is the owner of all keys under `algorithm: exact`. It grants each event, but of
// one key only after the caller has gone. Safe for concurrent use.
type Late struct {
	// Key is that key; default "late".
	Key string

	// Asked has a value for each event of Key that is asked for.
	Asked chan struct{}

	taken, given atomic.Int64
}

// NewLate returns a Late, and the engine of one host under limits that asks it.
func NewLate(t testing.TB, limits string) (*Late, *engine.Engine) {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	l := &Late{Key: "late", Asked: make(chan struct{}, 16)}
	return l, engine.New(limiter.NewGroup(s, 1, limiter.WithRemote("exact", l)), nil)
}

// Do implements stage.Remote.
func (l *Late) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	switch {
	case op.Kind == stage.ReturnTokens:
		l.given.Add(int64(op.N))
	case op.Key == l.Key:
		l.Asked <- struct{}{}
		<-ctx.Done()
		fallthrough
	default:
		l.taken.Add(int64(op.N))
	}
	return stage.Outcome{OK: true}, nil
}

// Taken is how many tokens were taken.
func (l *Late) Taken() int64 { return l.taken.Load() }

// Kept is how many of the tokens that were taken have not come back.
func (l *Late) Kept() int64 { return l.taken.Load() - l.given.Load() }

// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"

	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
)

// staged is a Limiter as a stage.Stage.
type staged keys.Key

// Take implements stage.Stage.
func (s *staged) Take(ctx context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	k := (*keys.Key)(s)
	if r.Kind >= stage.Charge {
		return spend(k, r.Now, r.N, r.Kind), stage.Receipt{}
	}
	v, receipt, from := decide(ctx, k, r.Now, r.N, r.Longest, r.Kind)
	if receipt.N == 0 && receipt.Rest == nil && (v.Reason != stage.Bypassed || r.Kind != stage.Take) {
		return v, stage.Receipt{}
	}
	kept := undoable(k, r.Now, r.N, v, receipt, from)
	return v, stage.Receipt{N: receipt.N, Rest: &kept}
}

// Allow implements stage.Stage.
func (s *staged) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return allow(ctx, (*keys.Key)(s), now)
}

// Settle implements stage.Stage.
func (s *staged) Settle(now stage.Instant, r stage.Receipt, actual int64) {
	if t, ok := r.Rest.(*taken); ok {
		t.settle(now, actual)
	}
}

// Cap implements stage.Stage.
func (s *staged) Cap(now stage.Instant, tokens float64) {
	if st := (*keys.Key)(s).Current(now); st.Stage != nil {
		st.Stage.Cap(now, tokens)
	}
}

// Level implements stage.Stage.
func (s *staged) Level(now stage.Instant) stage.Level { return (*keys.Key)(s).Current(now).Level(now) }

// Open implements stage.Stage.
func (s *staged) Open() (open bool, changed []<-chan struct{}) { return (*keys.Key)(s).Open() }

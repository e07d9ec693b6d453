// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/rpc"
)

// insane is a grant that must not go to a host, as an error.
type insane account.Grant

func (g insane) Error() string {
	return fmt.Sprintf("the algorithm's grant is %+v; weights are in [0, 1] and all else is finite and not negative", account.Grant(g))
}

// sane tells whether g may go to a host: anyone may write an algorithm.
func sane(g account.Grant) bool {
	amount := func(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
	return g.Weight >= 0 && g.Weight <= 1 && amount(g.Burst) && amount(g.Used) && amount(g.Tokens)
}

// A line about refusals, and one about algorithms that fail, is logged so
// often at most: a peer or an algorithm that always errs must not fill the log.
const (
	refusalsEvery = 10 * time.Second
	blameEvery    = time.Minute
)

// refuse counts and logs a message of a host that is refused.
func (a *Aggregator) refuse(host, what string, err error) {
	a.metrics.refused.Inc(1)
	if others, ok := a.refusals.next(Now(), refusalsEvery); ok {
		a.log.Warn("a host's message is refused", "host", host, "message", what, "error", err, "refused_since_last_line", others)
	}
}

// pacer spaces log lines. The zero pacer lets the first through. It is safe for
// concurrent use.
type pacer struct {
	last    atomic.Int64 // when; 0 for never
	skipped atomic.Int64
}

// next reports whether a line may be written at now, and how many were skipped
// before it.
func (p *pacer) next(now, every time.Duration) (skipped int64, ok bool) {
	last := p.last.Load()
	if last != 0 && now-time.Duration(last) < every || !p.last.CompareAndSwap(last, int64(now)|1) {
		p.skipped.Add(1)
		return 0, false
	}
	return p.skipped.Swap(0), true
}

// blame logs what an algorithm did wrong with key at now.
func (a *Aggregator) blame(now time.Duration, algorithm, key string, err error) {
	if _, ok := a.blamed.next(now, blameEvery); !ok {
		return
	}
	a.log.Error("an algorithm failed; its keys get no grant and fall back", "algorithm", algorithm, "key", key, "error", err, "stack", rpc.StackOf(err))
}

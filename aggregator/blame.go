// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
)

// errNoKey is an algorithm's that has no state for a key.
var errNoKey = errors.New("the algorithm's NewKey returned nil; return a Key")

// insane is a grant that must not go to a host, as an error.
type insane algorithm.Grant

func (g insane) Error() string {
	return fmt.Sprintf("the algorithm's grant is %+v; weights are in [0, 1] and all else is finite and not negative", algorithm.Grant(g))
}

// sane tells whether g may go to a host: anyone may write an algorithm.
func sane(g algorithm.Grant) bool {
	amount := func(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
	return g.Weight >= 0 && g.Weight <= 1 && amount(g.Burst) && amount(g.Used) && amount(g.Tokens)
}

// recovered, deferred, turns a panic of an algorithm into *err.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &rpc.PanicError{Value: v, Stack: debug.Stack()}
	}
}

// blameEvery keeps an algorithm that always fails from filling the log.
const blameEvery = time.Minute

// blame logs what an algorithm did wrong with key at now.
func (a *Aggregator) blame(now time.Duration, algorithm, key string, err error) {
	last := a.blamed.Load()
	if last != 0 && now-time.Duration(last) < blameEvery || !a.blamed.CompareAndSwap(last, max(int64(now), 1)) {
		return
	}
	var stack string
	if p, ok := errors.AsType[*rpc.PanicError](err); ok {
		stack = string(p.Stack)
	}
	a.log.Error("an algorithm failed; its keys get no grant and fall back", "algorithm", algorithm, "key", key, "error", err, "stack", stack)
}

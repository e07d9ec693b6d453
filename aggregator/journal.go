// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/pace"
	"github.com/headgate/headgate/rpc"
)

// invalidGrant is a grant that must not go to a host, as an error.
type invalidGrant account.Grant

func (g invalidGrant) Error() string {
	if g.Weight < 0 || g.Weight > 1 || math.IsNaN(g.Weight) {
		return fmt.Sprintf("it gave a host the weight %v, which is the host's part divided by the limit: each part is a number, at least 0, and at most the limit", g.Weight)
	}
	return fmt.Sprintf("it gave a host the burst %v, the tokens %v and the use %v: each is a finite number, at least 0", g.Burst, g.Tokens, g.Used)
}

// valid reports whether g may go to a host: anyone may write an algorithm.
func valid(g account.Grant) bool {
	amount := func(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
	return g.Weight >= 0 && g.Weight <= 1 && amount(g.Burst) && amount(g.Used) && amount(g.Tokens)
}

// A line about refusals, and one about each algorithm that fails, is logged so
// often at most: a peer or an algorithm that always errs must not fill the log.
const (
	refusalsEvery = 10 * time.Second
	blameEvery    = time.Minute
)

// journal is what an Aggregator writes down.
type journal struct {
	log      *slog.Logger
	metrics  metrics
	blamed   sync.Map // to *pace.Pacer, by the algorithm
	refusals pace.Pacer
}

// refuse counts and logs a message of a host that is refused at now.
func (j *journal) refuse(now time.Duration, host, what string, err error) {
	j.metrics.refused.Inc(1)
	if others, ok := j.refusals.Next(now, refusalsEvery); ok {
		j.log.Warn("a host's message is refused", "host", host, "message", what, "error", err, "refused_since_last_line", others)
	}
}

// blame logs what an algorithm did wrong at now with the key that is shown as key.
func (j *journal) blame(now time.Duration, algorithm, key string, err error) {
	every, _ := j.blamed.LoadOrStore(algorithm, new(pace.Pacer))
	if _, ok := every.(*pace.Pacer).Next(now, blameEvery); !ok { //nolint:errcheck // nothing else is stored
		return
	}
	log := j.log
	if stack := rpc.StackOf(err); stack != "" {
		log = log.With("stack", stack)
	}
	log.Error("an algorithm failed; its keys get no grant and fall back", "algorithm", algorithm, "key", key, "error", err)
}

// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// counted is a Rate that counts what a remote decides.
//
// owned says that the key's owner gets reports as well. The owner charges what
// a report says was allowed, and it has charged already what it decided itself.
// So that is counted as rejected, and in admitted.
type counted struct {
	*share.Rate
	owned    bool
	unheard  atomic.Bool // no owner has answered a report yet
	admitted atomic.Int64
	taken    int64 // of admitted, by TakeAdmitted
}

// count counts n as allowed or rejected. For a key whose owner gets reports, n
// counts as wanted and not as used.
func (c *counted) count(now stage.Instant, n int64, ok bool) {
	if !c.owned {
		c.Bucket().Record(n, ok)
		return
	}
	if ok {
		c.admitted.Add(n)
	}
	c.Bucket().Record(n, false)
	c.RanLowIf(now, c.unheard.Load())
}

// disown counts n, which the fallback's bucket has counted, as count does.
func (c *counted) disown(now stage.Instant, n int64, ok bool) {
	if c.owned {
		c.Bucket().Record(-n, ok)
		c.count(now, n, ok)
	}
}

// uncount takes back that n were allowed: they did not happen.
func (c *counted) uncount(n int64) {
	if c.owned {
		c.admitted.Add(-n)
		c.Bucket().Record(-n, false)
		return
	}
	c.Uncount(n)
}

// Admitted implements share.Part.
func (c *counted) Admitted() int64 { return c.admitted.Load() }

// TakeAdmitted implements share.Part.
func (c *counted) TakeAdmitted() (n int64) {
	admitted := c.admitted.Load()
	n, c.taken = admitted-c.taken, admitted
	return n
}

// lastAnswer is how many tokens a remote had left when it last answered. A
// small mismatch of the two fields only blurs the level.
type lastAnswer struct {
	left atomic.Uint64 // float64 bits
	at   atomic.Int64
}

func (a *lastAnswer) note(now stage.Instant, left float64) {
	a.left.Store(math.Float64bits(left))
	a.at.Store(int64(now))
}

// level is what the remote has now, if no other host asked it meanwhile.
func (a *lastAnswer) level(now stage.Instant, rule *dynamicconfig.Rule) stage.Level {
	tokens := math.Float64frombits(a.left.Load())
	tokens += float64(rule.Limit) * max(now.Sub(stage.Instant(a.at.Load())), 0).Seconds()
	return stage.Level{Limit: rule.Limit, Burst: rule.Burst, Tokens: min(tokens, rule.Burst), Remote: true}
}

// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// counted is a Rate that counts what a remote decides.
//
// owned says that the key's owner gets reports as well. The owner charges the usage
// that a report shows as allowed, and has charged already the events that it decided
// itself. So the host counts those events as rejected, and in admitted.
type counted struct {
	*share.Rate
	owned    bool
	unheard  atomic.Bool // no owner has answered a report yet
	admitted atomic.Int64
	taken    int64 // of admitted, by TakeElsewhere
}

// count counts n as allowed or rejected. For a key whose owner gets reports, n
// counts as wanted and not as used.
func (c *counted) count(now stage.Instant, n int64, ok bool) {
	if !c.owned {
		c.Bucket().Record(n, ok)
		return
	}
	if ok {
		c.admitted.Add(min(n, bucket.MaxCost))
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
		c.admitted.Add(-min(n, bucket.MaxCost))
		c.Bucket().Record(-n, false)
		return
	}
	c.Uncount(n)
}

// Admitted implements share.Part.
func (c *counted) Admitted() int64 { return c.admitted.Load() }

// TakeElsewhere implements share.Part.
func (c *counted) TakeElsewhere() (n int64, _ share.Asked) {
	admitted := c.admitted.Load()
	n, c.taken = admitted-c.taken, admitted
	return n, share.Asked{}
}

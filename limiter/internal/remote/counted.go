// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// counted is a Rate that counts what a remote decides.
//
// owned says that the key's owner gets reports as well. The owner charges the usage
// that a report shows as allowed, and has charged already the events that it decided
// itself. So the host counts those events as rejected, and as admitted elsewhere.
type counted struct {
	*share.Rate
	switches
	own   *share.AdmittedRemote // see admittedRemote
	Heard *elsewhere.Heard      // by the remote
}

// switches are a word of a Stage, in the cache line that decisions read. They are safe for
// concurrent use.
type switches struct {
	on  atomic.Uint32 // flags
	low atomic.Int32  // of an Auto: the host asks ahead once it has fewer tokens; 0: it does not
}

// flags say what is true of a Stage.
type flags uint32

const (
	owned    flags = 1 << iota // see counted; it does not change
	asks                       // of an Auto: there is no grant; readers need no other field to match it
	gone                       // see Stage.Leave
	measured                   // the bucket is one of those that migrations only measure; it does not change
)

// is reports whether f is true, or one of several.
func (s *switches) is(f flags) bool { return s.on.Load()&uint32(f) != 0 }

// set makes f true, or not. It writes only what is news.
func (s *switches) set(f flags, on bool) {
	switch {
	case s.is(f) == on:
	case on:
		s.on.Or(uint32(f))
	default:
		s.on.And(^uint32(f))
	}
}

// usesFallback reports whether the fallback decides while the remote does not answer: there is no grant.
func (c *counted) usesFallback() bool { return !c.is(owned) || c.is(asks) }

// admittedRemote counts what the owner admitted. It goes on with the count of the remote bucket that the Rate
// asked before.
func (c *counted) admittedRemote() *share.AdmittedRemote {
	if left := c.AdmittedRemote(); left != nil {
		return left
	}
	return c.own
}

// count counts n as allowed or rejected. For a key whose owner gets reports, n
// counts as wanted and not as used.
func (c *counted) count(now stage.Instant, n int64, ok bool) {
	if !c.is(owned) {
		c.Bucket().Record(n, ok)
		return
	}
	if ok {
		c.admittedRemote().Admit(min(n, bucket.MaxCost))
	}
	c.Bucket().Record(n, false)
	if waited := c.is(asks); waited || c.Bucket().LowAlways() { // a retired Rate reports each use
		c.RanLow(now, waited)
	}
}

// recount counts n as count does, in place of the count of the fallback's bucket.
func (c *counted) recount(now stage.Instant, n int64, ok bool) {
	if c.is(owned) {
		c.Bucket().Record(-n, ok)
		c.count(now, n, ok)
	}
}

// uncount takes back that n were allowed, because a caller gives them back. apart says that no report has told
// an owner that they were allowed, or that the owner learns in another way that they came back.
func (c *counted) uncount(n int64, apart bool) {
	if apart {
		c.admittedRemote().Admit(-min(n, bucket.MaxCost))
		c.Bucket().Record(-n, false)
		share.GiveBack(c.Rate, n)
		return
	}
	c.Uncount(n)
}

// canceled takes back that q was counted: its caller has gone.
func (c *counted) canceled(q stage.Request) (stage.Verdict, stage.Receipt) {
	c.Bucket().Record(-q.N, false)
	return stage.Because(stage.Canceled), stage.Receipt{}
}

// Admitted implements share.Part.
func (c *counted) Admitted() int64 { return c.admittedRemote().Admitted() }

// TakeAdmitted implements share.Part.
func (c *counted) TakeAdmitted(*share.Asked) (admitted int64) { return c.admittedRemote().Take() }

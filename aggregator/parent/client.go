// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/aggregator/internal/pace"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

const (
	// MinRefresh is the shortest time between two claims for a key.
	MinRefresh = 100 * time.Millisecond

	// again is after how long to ask again what was not answered.
	again = time.Second
)

// Client claims from the cluster above what keys of this cluster share. It is safe for
// concurrent use.
type Client struct {
	log     *slog.Logger
	clock   func() time.Duration
	refused func() // counts
	lines   pace.Pacer
	owns    atomic.Pointer[func(key string) bool] // nil: all keys

	mu     sync.Mutex          // protects following fields; the locks of keys come before it
	leases map[string][]*Lease // by key, which has one for each account
	raised uint64              // how many there ever were
	next   agenda              // when to look at each
	since  time.Duration       // when the claims under way were made
}

// NewClient returns a Client of no keys. Now is the clock of the keys' locks, and
// refused is called for each answer that is refused.
func NewClient(log *slog.Logger, now func() time.Duration, refused func()) *Client {
	return &Client{log: log, clock: now, refused: refused, leases: make(map[string][]*Lease)}
}

// Raise gives key, which is locked, a cluster above under rule; see Follow for shadow. What
// its hosts want is not known before interval has passed, unless its account knows.
func (c *Client) Raise(now time.Duration, key Key, rule *dynamicconfig.Rule, shadow bool, interval time.Duration) *Lease {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.raised++
	l := &Lease{Key: key, turn: turn{of: c, number: c.raised, askAt: now}, rule: rule, shadow: shadow, keeps: now + interval}
	c.leases[key.Text] = append(c.leases[key.Text], l)
	c.next.add(l, now)
	return l
}

// Moved says which keys this host owns from now on. The Client claims for no others: the
// cluster above has one claimant of a key in this cluster, whichever host owns it here.
func (c *Client) Moved(owns func(key string) bool) {
	c.owns.Store(&owns)
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, of := range c.leases {
		for _, l := range of {
			c.next.add(l, math.MinInt64)
		}
	}
}

// Owns reports whether this host owns key, by what Moved said last.
func (c *Client) Owns(key string) bool {
	owns := c.owns.Load()
	return owns == nil || (*owns)(key)
}

// look has Ask look at l at that time, or earlier.
func (c *Client) look(l *Lease, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.next.add(l, at)
}

// end forgets l.
func (c *Client) end(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.next.remove(l)
	left := slices.DeleteFunc(c.leases[l.Text], func(of *Lease) bool { return of == l })
	if c.leases[l.Text] = left; len(left) == 0 {
		delete(c.leases, l.Text)
	}
}

// Len is how many leases there are.
func (c *Client) Len() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, of := range c.leases {
		n += len(of)
	}
	return n
}

// of are the leases of a key.
func (c *Client) of(key string) []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()

	return slices.Clone(c.leases[key])
}

// Ask returns what to claim from the cluster above at now, on behalf of this
// cluster, which is called host there; nil if nothing is due. Answers go to
// Hear.
func (c *Client) Ask(now time.Duration, host string) *claims.Claims {
	asked := new(claims.Claims)
	for _, l := range c.due(now) {
		at := l.Lock.Lock(now)
		switch {
		case !l.claims() || !c.Owns(l.Text): // until Follow, Hear or Moved says otherwise
		case l.askAt > at:
			c.look(l, l.askAt)
		case len(asked.Rows) == rpc.MaxKeys:
			c.look(l, at)
		default:
			asked.Rows = append(asked.Rows, l.claim(at, host))
		}
		l.Lock.Unlock()
	}
	if len(asked.Rows) == 0 {
		return nil
	}
	return asked
}

// due takes the leases that Ask is to look at, in the order in which they were raised.
func (c *Client) due(now time.Duration) []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.since = now
	due := c.next.take(now)
	slices.SortFunc(due, func(a, b *Lease) int { return cmp.Compare(a.number, b.number) })
	return due
}

// Hear takes in the answer to what was asked last. Rows with an error, or refused,
// change nothing; they are asked again soon. So is all of an answer that does
// not hold to the contract: anyone may write a Claiming.
func (c *Client) Hear(now time.Duration, asked *claims.Claims, leases *claims.Leases, errs []error) {
	if err := check(len(asked.Rows), leases, errs); err != nil {
		c.refuse("the answer of the cluster above is refused", err)
		leases = nil
	}
	c.mu.Lock()
	since := c.since
	c.mu.Unlock()
	for i := range asked.Rows {
		var answer claims.Lease
		if leases != nil && (errs == nil || errs[i] == nil) {
			answer = leases.Rows[i]
		}
		for _, l := range c.of(asked.Rows[i].Key) {
			now := l.Lock.Lock(now)
			if l.rule != nil && (l.asked || l.shadow) {
				l.apply(now, since, asked.Rows[i].Keep, answer)
				l.Leased(now)
				c.look(l, l.askAt)
			}
			l.Lock.Unlock()
		}
	}
}

// check reports what is wrong with an answer to n claims.
func check(n int, leases *claims.Leases, errs []error) error {
	switch {
	case errs != nil && len(errs) != n:
		return fmt.Errorf("%d errors for %d claims; give each its own or nil, or none at all", len(errs), n)
	case leases == nil:
		return nil
	}
	return leases.Check(n)
}

// refuse counts an answer that is refused, and logs one in ten seconds.
func (c *Client) refuse(what string, err error) {
	c.refused()
	if others, ok := c.lines.Next(c.clock(), 10*time.Second); ok {
		c.log.Warn(what, "error", err, "stack", rpc.StackOf(err), "refused_since_last_line", others)
	}
}

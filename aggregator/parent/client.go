// SPDX-License-Identifier: Apache-2.0

package parent

import (
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

	mu    sync.Mutex
	keys  []*Lease      // protected by mu
	since time.Duration // protected by mu; when the claims under way were made
}

// NewClient returns a Client of no keys. Now is the clock of the keys' locks, and
// refused is called for each answer that is refused.
func NewClient(log *slog.Logger, now func() time.Duration, refused func()) *Client {
	return &Client{log: log, clock: now, refused: refused}
}

// Raise gives key, which is locked, a cluster above under rule; see Follow for shadow. What
// its hosts want is not known before interval has passed, unless its account knows.
func (c *Client) Raise(now time.Duration, key Key, rule *dynamicconfig.Rule, shadow bool, interval time.Duration) *Lease {
	l := &Lease{Key: key, rule: rule, shadow: shadow, askAt: now, keeps: now + interval}
	c.mu.Lock()
	defer c.mu.Unlock()

	c.keys = append(c.keys, l)
	return l
}

// Moved says which keys this host owns from now on. The Client claims for no others: the
// cluster above has one claimant of a key in this cluster, whichever host owns it here.
func (c *Client) Moved(owns func(key string) bool) { c.owns.Store(&owns) }

// Owns reports whether this host owns key, by what Moved said last.
func (c *Client) Owns(key string) bool {
	owns := c.owns.Load()
	return owns == nil || (*owns)(key)
}

// Expire forgets leases that have ended.
func (c *Client) Expire() {
	gone := make(map[*Lease]bool)
	for _, l := range c.all() {
		l.Lock.Lock(math.MinInt64)
		if l.rule == nil {
			gone[l] = true
		}
		l.Lock.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	c.keys = slices.DeleteFunc(c.keys, func(l *Lease) bool { return gone[l] })
}

// Len is how many leases there are, those that have ended since the last Expire too.
func (c *Client) Len() int { return len(c.all()) }

func (c *Client) all() []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()

	return slices.Clone(c.keys)
}

// Ask returns what to claim from the cluster above at now, on behalf of this
// cluster, which is called host there; nil if nothing is due. Answers go to
// Hear.
func (c *Client) Ask(now time.Duration, host string) *claims.Claims {
	c.mu.Lock()
	c.since = now
	c.mu.Unlock()
	asked := new(claims.Claims)
	for _, l := range c.all() {
		now := l.Lock.Lock(now)
		if l.due(now) && c.Owns(l.Text) && len(asked.Rows) < rpc.MaxKeys {
			asked.Rows = append(asked.Rows, l.claim(now, host))
		}
		l.Lock.Unlock()
	}
	if len(asked.Rows) == 0 {
		return nil
	}
	return asked
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
	rows := make(map[string]int, len(asked.Rows))
	for i := range asked.Rows {
		rows[asked.Rows[i].Key] = i
	}
	for _, l := range c.all() {
		i, ok := rows[l.Text]
		if !ok {
			continue
		}
		now := l.Lock.Lock(now)
		if l.rule != nil && (l.asked || l.shadow) {
			var answer claims.Lease
			if leases != nil && (errs == nil || errs[i] == nil) {
				answer = leases.Rows[i]
			}
			l.apply(now, since, asked.Rows[i].Keep, answer)
			l.Leased(now)
		}
		l.Lock.Unlock()
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

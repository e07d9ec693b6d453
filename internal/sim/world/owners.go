// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// errCutOff is the answer of an owner that cannot be asked.
var errCutOff = errors.New("the owner does not answer")

// onOwners asks the owners of keys for events, as an ask.Taker does, but in no
// time: a decision has none to wait in. An owner that is down, held, slow or cut
// off does not answer, and nothing is lost on the way.
type onOwners struct {
	c    *cluster
	h    *host
	auto bool
}

var _ stage.Remote = onOwners{}

// hearsay is what a host was told of a bucket.
type hearsay struct {
	left   float64
	at     traffic.Time
	by     uint32
	failed bool // to ask, since tokens were last settled with
}

// account is one of a key's buckets.
type account struct {
	key  string
	auto bool
}

// asksOwners tells whether any rule of s has owners asked.
func asksOwners(s *dynamicconfig.Snapshot) bool {
	return slices.ContainsFunc(s.Algorithms(), func(name string) bool {
		return name == algorithm.NameExact || name == algorithm.NameAuto
	})
}

// Do implements stage.Remote.
func (o onOwners) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	of := account{op.Key, o.auto}
	told := o.h.told[of]
	take := usage.Take{Key: op.Key, Auto: o.auto, Tokens: op.N, Longest: min(op.Longest, rpc.MaxWait), More: op.More, Wants: op.Wants}
	charge := op.Kind == stage.ChargeTokens
	if charge {
		if take.Spent = usage.SpentBeyond; told.failed {
			take.Spent = usage.SpentApart
		}
	}
	if op.Kind == stage.ReturnTokens {
		take.Tokens = -op.N
	}
	if ago := o.c.now - told.at; told.by != 0 && ago <= rpc.MaxElapsed {
		take.Told, take.By, take.Ago = told.left, told.by, ago
	}
	owner := o.h.ring.Owner(op.Key)
	taken, err := o.c.ask(o.h, owner, []usage.Take{take})
	o.c.wait(o.h, owner, err)
	if err == nil && !taken.Rows[0].Decided {
		err = errCutOff
	}
	if err != nil {
		told.failed = told.failed || !charge
		o.h.told[of] = told
		return stage.Outcome{}, err
	}
	took := taken.Rows[0]
	o.h.told[of] = hearsay{took.Left, o.c.now, taken.By, told.failed && !charge}
	answer := stage.Outcome{OK: took.OK, Wait: took.Wait, RetryAfter: took.Retry, Left: took.Left, Lent: took.Lent}
	if took.Retry == rpc.MaxWait {
		answer.RetryAfter = 0
	}
	return answer, nil
}

// ask has the owner called name serve rows, which are one host's.
func (c *cluster) ask(h *host, name string, rows []usage.Take) (*usage.Taken, error) {
	n, ok := c.byName[name]
	if !ok {
		return nil, errCutOff
	}
	owner := c.hosts[n]
	if owner.aggregator == nil || owner.pauses > 0 {
		return nil, errCutOff
	}
	if owner == h {
		return c.serveTakes(owner, h.name, &usage.Takes{Rows: rows}), nil
	}
	if owner.slow > ask.DefaultTimeout || c.isCut(h.number, n) || c.isCut(n, h.number) {
		return nil, errCutOff
	}
	payload, err := usage.EncodeTakes(&usage.Takes{Caller: 1, Rows: rows})
	if err != nil {
		c.fail(fmt.Errorf("%s asks: %w", h.name, err))
		return nil, err
	}
	var takes usage.Takes
	if err := usage.DecodeTakes(payload, &takes); err != nil {
		c.fail(fmt.Errorf("%s is asked: %w", owner.name, err))
		return nil, err
	}
	taken := c.serveTakes(owner, h.name, &takes)
	answer, err := usage.EncodeTaken(taken, len(rows))
	if err != nil {
		c.fail(fmt.Errorf("%s answers: %w", owner.name, err))
		return nil, err
	}
	c.Asks++
	c.Bytes += int64(HeaderBytes + len(h.name) + len(payload.TypeUrl) + len(payload.Value) + len(answer.TypeUrl) + len(answer.Value))
	return taken, nil
}

// wait counts how long a decision would have waited for an answer: both ways and
// the owner's slowness, or until it is given up. The decision itself takes no
// time.
func (c *cluster) wait(h *host, name string, err error) {
	n := &c.sc.Network
	switch owner, ok := c.byName[name]; {
	case c.background || !ok || owner == h.number:
	case err != nil:
		c.waited += ask.DefaultTimeout
	default:
		r := c.asks[h.number]
		c.waited += 2*n.Latency + c.hosts[owner].slow + time.Duration((r.Float64()+r.Float64())*float64(n.Jitter))
	}
}

func (c *cluster) serveTakes(owner *host, name string, takes *usage.Takes) *usage.Taken {
	taken := new(usage.Taken)
	owner.aggregator.Take(c.now-owner.born, name, takes, taken)
	return taken
}

// moveBuckets tells other owners what is left in buckets that were h's to know.
func (c *cluster) moveBuckets(h *host, rows []usage.Take, owner func(key string) string) {
	for _, row := range rows {
		// Who does not hear it learns from who asks.
		_, _ = c.ask(h, owner(row.Key), []usage.Take{row})
	}
}

// movesBuckets has h tell the owners by the ring that it has just seen.
func (c *cluster) movesBuckets(h *host) {
	if h.aggregator == nil || !slices.ContainsFunc(c.configs, asksOwners) {
		return
	}
	rows := h.aggregator.Buckets(c.now-h.born, func(key string) bool { return h.ring.Owner(key) != h.name })
	c.moveBuckets(h, rows, h.ring.Owner)
}

// handBuckets has h, which leaves, tell those who own its keys then.
func (c *cluster) handBuckets(h *host) {
	if slices.ContainsFunc(c.configs, asksOwners) {
		c.moveBuckets(h, h.aggregator.HandoverBuckets(c.now-h.born), h.ring.Without(h.name).Owner)
	}
}

// remotes are whom a host's limiters ask, all in no time.
func (c *cluster) remotes(h *host) limiter.Option {
	h.told = make(map[account]hearsay)
	all := []limiter.Option{
		limiter.WithRemote(algorithm.NameExact, onOwners{c, h, false}),
		limiter.WithRemote(algorithm.NameAuto, onOwners{c, h, true}),
		limiter.WithBackground(func(f func()) {
			was := c.background
			c.background = true
			f()
			c.background = was
		}),
	}
	return limiter.Options(append(all, c.elsewhere...)...)
}

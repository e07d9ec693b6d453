// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// foreign calls the Codecs of services, which are other people's code: one call of each at a
// time, and as a call may never return, on a goroutine of its own. So a codec that hangs has one
// goroutine, and later reports under its algorithm fail until it returns. The zero foreign is
// ready. It is safe for concurrent use.
type foreign struct{ turns sync.Map } // to chan struct{}, by the algorithm

// errEnds is the error of a codec that ended its goroutine.
var errEnds = errors.New("the codec ended its goroutine")

// called is f's result, in its turn among the calls of the codec of algorithm. It is an error if f has
// not returned when ctx ends.
func called[A any](ctx context.Context, of *foreign, algorithm string, f func() (A, error)) (none A, err error) {
	one, _ := of.turns.LoadOrStore(algorithm, make(chan struct{}, 1))
	turn := one.(chan struct{}) //nolint:errcheck // nothing else is stored
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("an earlier call of the codec has not returned: %w", ctx.Err())
	}
	type result struct {
		a   A
		err error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errEnds}
		defer func() {
			<-turn
			done <- r
		}()
		defer rpc.Recovered(&r.err)
		r.a, r.err = f()
	}()
	select {
	case r := <-done:
		return r.a, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("the codec does not return: %w", ctx.Err())
	}
}

// encode makes the messages of parts, before ctx ends. A part whose message would be too large for
// a call becomes two. Refused is called with why rows are missing in a message.
func (of *foreign) encode(ctx context.Context, codec Codec, parts []Part, refused func(error)) (whole []Part) {
	for len(parts) > 0 {
		p := parts[0]
		parts = parts[1:]
		if p.Err == nil {
			p.payload, p.Err = called(ctx, of, p.Usage.Algorithm, func() (*anypb.Any, error) { return codec.EncodeReport(p.Usage) })
		}
		size, rows := len(p.payload.GetValue()), p.Usage.Len()
		switch {
		case size > fan.MaxBytes && rows > 1:
			all := fan.UpTo(rows)
			parts = append([]Part{p.pick(p.Owner, all[:rows/2]), p.pick(p.Owner, all[rows/2:])}, parts...)
			continue
		case size > fan.MaxBytes:
			p.Err = rpc.Refuse("the request of a key has %d bytes; a message has at most %d: make requests smaller", size, fan.MaxBytes)
		case p.payload != nil && p.Err != nil:
			refused(p.Err)
			p.Err = nil
		case p.payload == nil && p.Err == nil:
			p.Err = rpc.Refuse("the codec returned neither a payload nor an error")
		}
		whole = append(whole, p)
	}
	return whole
}

// decode is what codec makes of the answer to p, before ctx ends.
func (of *foreign) decode(ctx context.Context, codec Codec, answer *anypb.Any, p *Part, refused func(error)) (*Grants, error) {
	type decoded struct {
		*Grants

		missing error
	}
	d, err := called(ctx, of, p.Usage.Algorithm, func() (decoded, error) {
		g, err := codec.DecodeGrants(answer, p.Usage)
		if g == nil {
			return decoded{}, err
		}
		return decoded{g, err}, nil
	})
	switch {
	case err != nil:
		return nil, err
	case d.Grants == nil:
		return nil, rpc.Refuse("the codec returned neither grants nor an error")
	case d.missing != nil:
		refused(d.missing)
	}
	bad, err := d.mend(p.Usage.Len())
	if err != nil {
		return nil, err
	}
	if bad != nil {
		refused(bad)
	}
	return d.Grants, nil
}

// mend takes the grants away that are against the contract, and returns the first of them as an error.
// It fails if it is not a matter of rows.
func (g *Grants) mend(n int) (bad, err error) {
	if bad = g.Check(n); bad == nil || g.checkColumns(n) != nil {
		return nil, bad
	}
	for i := range n {
		if g.pick([]int{i}).Check(1) != nil {
			g.Weight[i], g.Burst[i], g.Used[i], g.Lease[i] = 0, 0, 0, 0
			if g.Tokens != nil {
				g.Tokens[i] = 0
			}
		}
	}
	return bad, g.Check(n)
}

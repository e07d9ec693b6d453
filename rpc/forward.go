// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// DefaultForwardTimeout is how long a Forward waits for one owner when nobody
// says otherwise.
const DefaultForwardTimeout = time.Second

// Forward answers Usage for any key, whoever owns it, by asking the owners. It
// is the Decider of an edge: who asks there need not know the ring. Owners
// hear the name of who asked, and answer by themselves, so that nothing is
// forwarded twice; for that, the Fanout's Local must not be a Forward.
//
// The answer is as if one decider owned all keys, with one exception: keys
// whose owner did not answer are Unanswered, which the Fanout of who asked
// takes for the error that it is. When no owner answers, the whole is an error.
// Its fields do not change once it is in use. Safe for concurrent use.
type Forward struct {
	// Fanout asks the owners. Its Host is not used: who called is who asks.
	Fanout *Fanout

	// Timeout bounds the call to one owner; default DefaultForwardTimeout.
	// A call that has less time itself leaves a quarter of it to answer in.
	Timeout time.Duration

	// Failed, when not nil, is told of each part that was not answered. It is
	// called while someone waits, and from any goroutine.
	Failed func(part Part, err error)
}

var _ Decider = (*Forward)(nil)

// Update asks the owners of the keys in payload, which is a Usage, on behalf
// of host. The errors are ErrPayload, that of the only owners, or ctx's.
func (f *Forward) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := CheckHost(host); err != nil {
		return nil, err
	}
	var u Usage
	if err := (Columnar{}).DecodeUsage(payload, &u); err != nil {
		return nil, err
	}
	fanout := *f.Fanout
	fanout.Host = host
	timeout := f.Timeout
	if timeout <= 0 {
		timeout = DefaultForwardTimeout
	}
	var answers []partial
	var unanswered []int
	var errs []error
	fanout.Update(ctx, &u, within(ctx, timeout), func(part Part, grants *Grants, err error) {
		if err == nil {
			answers = append(answers, partial{part.Rows, grants})
			return
		}
		errs = append(errs, err)
		unanswered = append(unanswered, part.Rows...)
		if f.Failed != nil {
			f.Failed(part, err)
		}
	})
	if len(answers) == 0 && len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	g := join(answers, u.Len())
	slices.Sort(unanswered)
	g.Unanswered = unanswered
	return Columnar{}.EncodeGrants(g, u.Len())
}

// partial is an owner's answer for some rows.
type partial struct {
	rows   []int
	grants *Grants
}

// join puts the answers for parts of n rows into their order. Floor and
// Tokens are for a whole message: where owners are not of one mind, which
// takes different releases or configs, those with the most rows have it their
// way, and the rows of others have no grant.
func join(answers []partial, n int) *Grants {
	type form struct {
		floor  Floor
		tokens bool
	}
	formOf := func(g *Grants) form { return form{g.Floor, g.Tokens != nil} }
	sizes := make(map[form]int, 1)
	for _, a := range answers {
		sizes[formOf(a.grants)] += len(a.rows)
	}
	var all form
	most := 0
	for _, a := range answers {
		if own := formOf(a.grants); sizes[own] > most {
			all, most = own, sizes[own]
		}
	}
	g := &Grants{
		Floor:  all.floor,
		Weight: make([]float64, n),
		Burst:  make([]float64, n),
		Used:   make([]float64, n),
		Lease:  make([]time.Duration, n),
	}
	if all.tokens {
		g.Tokens = make([]float64, n)
	}
	for _, a := range answers {
		if formOf(a.grants) != all {
			continue
		}
		for i, row := range a.rows {
			g.Weight[row], g.Burst[row] = a.grants.Weight[i], a.grants.Burst[i]
			g.Used[row], g.Lease[row] = a.grants.Used[i], a.grants.Lease[i]
			if all.tokens {
				g.Tokens[row] = a.grants.Tokens[i]
			}
		}
	}
	return g
}

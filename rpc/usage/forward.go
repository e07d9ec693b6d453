// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// ForwardTimeout is how long a Forward waits for one owner. A call that has less time
// itself leaves a quarter of it to answer in.
const ForwardTimeout = time.Second

// Forward answers a Report about any key by asking the keys' owners. It is the
// Decider of an edge, whose callers need not know the ring. Owners get the
// name of the caller, and answer by themselves, so that nothing is forwarded
// twice; for that, the Fanout's Local must not be a Forward.
//
// The answer is as if one decider owned all keys, with one exception: keys
// whose owner did not answer are Unanswered, which the caller's Fanout reports as
// the error that it is. If no owner answers, the whole is an error.
// Its fields do not change once it is in use. Safe for concurrent use.
type Forward struct {
	// Fanout asks the owners. Its Host is not used: the caller's is.
	Fanout *Fanout

	// Failed, when not nil, is called for each part that was not answered, while
	// the caller waits, and from any goroutine.
	Failed func(part Part, err error)

	// Answered, when not nil, is called with each report that gets an answer, before its
	// caller does, and from any goroutine. Owners did not count the rows in unanswered,
	// which come again. r is the caller's once Answered returns.
	Answered func(r *Report, unanswered []int)
}

var _ rpc.Decider = (*Forward)(nil)

// Update asks the owners of the keys in payload, which is a Report, on behalf
// of host. The errors are ErrPayload, those of a few owners, or ctx's.
func (f *Forward) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := rpc.CheckHost(host); err != nil {
		return nil, err
	}
	var r Report
	if err := (Columnar{}).DecodeReport(payload, &r); err != nil {
		return nil, err
	}
	timeout := fan.Within(ctx, ForwardTimeout)
	answers, lost, err := fan.Gather(func(done func([]int, *Grants, error)) {
		f.Fanout.update(ctx, host, &r, timeout, func(part Part, grants *Grants, err error) {
			done(part.Rows, grants, err)
			if err != nil && f.Failed != nil {
				f.Failed(part, err)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	g := join(answers, r.Len())
	for _, l := range lost {
		g.Unanswered = append(g.Unanswered, l.Rows...)
	}
	slices.Sort(g.Unanswered)
	if f.Answered != nil {
		f.Answered(&r, g.Unanswered)
	}
	return Columnar{}.EncodeGrants(g, r.Len())
}

// join puts the answers for parts of n rows into their order. Floor and Tokens
// are for a whole message. Owners of different releases or configs may differ in
// them. The form of the owners with the most rows counts then, and the rows of the
// other owners have no grant.
func join(answers []fan.Answer[*Grants], n int) *Grants {
	type form struct {
		floor  Floor
		tokens bool
	}
	formOf := func(g *Grants) form { return form{g.Floor, g.Tokens != nil} }
	sizes := make(map[form]int, 1)
	for _, a := range answers {
		sizes[formOf(a.Answer)] += len(a.Rows)
	}
	var all form
	most := 0
	for _, a := range answers {
		if own := formOf(a.Answer); sizes[own] > most {
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
		if formOf(a.Answer) != all {
			continue
		}
		for i, row := range a.Rows {
			g.Weight[row], g.Burst[row] = a.Answer.Weight[i], a.Answer.Burst[i]
			g.Used[row], g.Lease[row] = a.Answer.Used[i], a.Answer.Lease[i]
			if all.tokens {
				g.Tokens[row] = a.Answer.Tokens[i]
			}
		}
	}
	return g
}

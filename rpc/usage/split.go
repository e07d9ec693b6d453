// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// rowBytes is the most that a row adds to its key.
const rowBytes = 40

// Part is the rows of a Report that go to one owner in one call.
type Part struct {
	// Owner is the address of the host that decides these keys.
	Owner string

	// Usage has the part's rows. It shares no column with what was split,
	// but the keys' strings.
	Usage *Report

	// Rows says which row of what was split each row is: row i of Usage is
	// row Rows[i] there. Increasing.
	Rows []int

	// Err, when not nil, is why these keys cannot be asked for: rpc.ErrNoOwner,
	// or an ErrPayload if the columns of what was split disagree.
	Err error

	payload *anypb.Any // the message of a service's Codec
}

// Split groups r's rows by owner, in the order in which owners first appear,
// at most rpc.KeysPerCall and about 3 MiB in each part. Every
// row is in one part. It keeps nothing of r but the keys' strings.
func Split(r *Report, p rpc.Placement) []Part {
	if r.Len() == 0 {
		return nil
	}
	if err := r.checkColumns(); err != nil {
		return []Part{{Usage: r, Rows: fan.UpTo(r.Len()), Err: err}}
	}
	split := fan.Split(r.Len(), rpc.KeysPerCall, p,
		func(i int) string { return r.Keys[i] }, func(i int) int { return len(r.Keys[i]) + rowBytes })
	parts := make([]Part, len(split))
	for i, s := range split {
		parts[i] = Part{Owner: s.Owner, Rows: s.Rows, Usage: r.pick(s.Rows)}
		if s.Owner == "" {
			parts[i].Err = rpc.ErrNoOwner
		}
	}
	return parts
}

// pick returns these rows of r.
func (r *Report) pick(rows []int) *Report {
	return &Report{
		Algorithm: r.Algorithm,
		Keys:      fan.Pick(r.Keys, rows),
		Allowed:   fan.Pick(r.Allowed, rows),
		Rejected:  fan.Pick(r.Rejected, rows),
		Elapsed:   fan.Pick(r.Elapsed, rows),
		Weight:    fan.Pick(r.Weight, rows),
		Wants:     fan.Pick(r.Wants, rows),
		Cost:      fan.Pick(r.Cost, rows),
		Slots:     fan.Pick(r.Slots, rows),
	}
}

// ErrUnanswered is the error of keys whose owner did not answer the Forward
// that was asked.
var ErrUnanswered = errors.New("rpc: the edge had no answer from the owner of these keys")

// behind begins the name of owners that a caller of an edge does not see.
const behind = "behind "

// deliver calls done with the answer to p, in two parts if some rows of it are
// unanswered. The owner of those has another name, so that a caller which notes
// failing owners does not take the edge for one.
func deliver(p Part, g *Grants, err error, done func(Part, *Grants, error)) {
	if err != nil || len(g.Unanswered) == 0 {
		done(p, g, err)
		return
	}
	var answered []int
	failed := g.Unanswered
	for row, next := 0, 0; row < p.Usage.Len(); row++ {
		if next < len(failed) && failed[next] == row {
			next++
			continue
		}
		answered = append(answered, row)
	}
	if len(answered) > 0 {
		done(p.pick(p.Owner, answered), g.pick(answered), nil)
	}
	done(p.pick(behind+p.Owner, failed), nil, ErrUnanswered)
}

// pick returns the part of p that is these rows of it.
func (p Part) pick(owner string, rows []int) Part {
	return Part{Owner: owner, Rows: fan.Pick(p.Rows, rows), Usage: p.Usage.pick(rows)}
}

// pick returns the grants of these rows, all of which were answered.
func (g *Grants) pick(rows []int) *Grants {
	return &Grants{
		Weight: fan.Pick(g.Weight, rows),
		Burst:  fan.Pick(g.Burst, rows),
		Used:   fan.Pick(g.Used, rows),
		Lease:  fan.Pick(g.Lease, rows),
		Tokens: fan.Pick(g.Tokens, rows),
		Floor:  g.Floor,
	}
}

// SPDX-License-Identifier: Apache-2.0

package rpc

import "errors"

// ErrUnanswered is the error of keys whose owner did not answer the Forward
// that was asked.
var ErrUnanswered = errors.New("rpc: the edge had no answer from the owner of these keys")

// behind begins the name of the owners that one does not see.
const behind = "behind "

// deliver calls done with the answer to p, in two parts if some rows of it are
// unanswered. Those have an owner of another name, so that who notes which
// owners are failing does not mix it up with who passed the answer on.
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
		done(p.pick(answered), g.pick(answered), nil)
	}
	lost := p.pick(failed)
	lost.Owner = behind + p.Owner
	done(lost, nil, ErrUnanswered)
}

// pick returns the part of p that is these rows of it.
func (p Part) pick(rows []int) Part {
	u := p.Usage
	return Part{
		Owner: p.Owner,
		Rows:  pick(p.Rows, rows),
		Usage: &Usage{
			Algorithm: u.Algorithm,
			Keys:      pick(u.Keys, rows),
			Allowed:   pick(u.Allowed, rows),
			Rejected:  pick(u.Rejected, rows),
			Elapsed:   pick(u.Elapsed, rows),
			Weight:    pick(u.Weight, rows),
			Wants:     pick(u.Wants, rows),
			Cost:      pick(u.Cost, rows),
		},
	}
}

// pick returns the grants of these rows, all of which were answered.
func (g *Grants) pick(rows []int) *Grants {
	return &Grants{
		Weight: pick(g.Weight, rows),
		Burst:  pick(g.Burst, rows),
		Used:   pick(g.Used, rows),
		Lease:  pick(g.Lease, rows),
		Tokens: pick(g.Tokens, rows),
		Floor:  g.Floor,
	}
}

// pick returns these rows of a column; nil of nil.
func pick[T any](column []T, rows []int) []T {
	if column == nil {
		return nil
	}
	picked := make([]T, len(rows))
	for i, row := range rows {
		picked[i] = column[row]
	}
	return picked
}

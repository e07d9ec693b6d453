// SPDX-License-Identifier: Apache-2.0

package algorithm

// Algorithm decides how a key's limit is shared among the hosts that use it.
//
// Implementations are pure: the same arguments give the same grants, nothing
// is kept between calls, and they are safe for concurrent use.
type Algorithm interface {
	// Share fills grants, as long as demands: grants[i] is for demands[i].
	// Demands are in no particular order and there is at least one. Every
	// weight must be in [0, 1], every number finite and ≥ 0. The limit and
	// the sum of the demands may be 0.
	Share(limit Limit, demands []Rates, grants []Grant)
}

// Summed is an Algorithm whose grant for one host follows from that host's
// demand and the sum of all demands. The decider keeps the sum up to date and
// so answers a host in constant time, however many hosts there are. Share and
// Grant must agree.
type Summed interface {
	Algorithm

	// Grant is for the host whose demand is own; sum includes own.
	Grant(limit Limit, sum, own Rates) Grant
}

// Floored is an Algorithm that lets hosts take more than their weight.
type Floored interface {
	Algorithm

	// Floor says how much more.
	Floor() Floor
}

// Floor is how much a host may take above its weighted part of the limit.
type Floor uint8

const (
	// FloorNone is nothing: exactly the weighted part.
	FloorNone Floor = iota
	// FloorUnused is for a host below the even share what the cluster leaves
	// unused, up to the even share.
	FloorUnused
	// FloorEven is the even share: never below it.
	FloorEven
	// FloorDrop is no share at all: the weight is the part of its events that
	// a host lets through, by chance.
	FloorDrop
)

// Limit is what is shared: Rate in events/s and Burst in tokens, for the
// whole cluster; finite, ≥ 0.
type Limit struct{ Rate, Burst float64 }

// Rates are what one host does with a key, in events/s, as moving averages;
// finite, ≥ 0. For slots in flight, the events are acquisitions.
type Rates struct{ Allowed, Rejected float64 }

// Total is what the host would use if it could.
func (d Rates) Total() float64 { return d.Allowed + d.Rejected }

// Grant is one host's part.
type Grant struct {
	// Weight is the part of the limit, in [0, 1].
	Weight float64
	// Burst is how many tokens the host's bucket may hold.
	Burst float64
	// Used is what the whole cluster uses, in events/s; 0 from algorithms
	// whose Floor does not need it.
	Used float64
	// Tokens, of a Stateful algorithm, are what the bucket is to hold as of
	// the host's report; finite, ≥ 0. Others leave the host its tokens.
	Tokens float64
}

// Func is an Algorithm that is one function.
type Func func(limit Limit, demands []Rates, grants []Grant)

// Share calls f.
func (f Func) Share(limit Limit, demands []Rates, grants []Grant) { f(limit, demands, grants) }

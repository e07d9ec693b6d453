// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"math"
	"time"

	builtin "github.com/headgate/headgate/algorithm"
)

// algorithm is one that is held to the laws.
type algorithm struct {
	name string

	// over is how many tokens more than limit·t + burst may pass in t, over all hosts;
	// infinite if there is no bound. why says so to people.
	over func(t time.Duration) float64
	why  string

	// parts: each host has a part of the limit to itself, and a charge is owed by that of
	// the host that makes it.
	parts bool

	// alone: only nodes decide by it, and no program with limiters of its own.
	alone bool

	// ratio: there is no bucket, and events pass by chance.
	ratio bool

	// remote: a charge or a refund is on its way for a moment after the answer.
	remote bool

	// leases: Doorman's clients may have leases of the key.
	leases bool
}

var algorithms = []algorithm{
	{name: "auto", over: pool, why: whyPool, remote: true},
	{name: "elastic", over: pool, why: whyPool},
	{name: "exact", over: no, why: "0", remote: true},
	{name: "redis", over: no, why: "0", alone: true, remote: true},
	{name: "gossip", over: hears, why: "(hosts − 1) · (burst + what `limit` gives in a round)", alone: true, remote: true},
	{name: "even", over: no, why: "0", parts: true},
	{name: "request-weighted", over: moves, why: "what `limit` gives until all hosts have reported twice", parts: true},
	{name: "request-weighted-even-floor", over: floors, why: "(hosts − 1) ÷ hosts of `limit` · t + `burst`", parts: true},
	{name: "drop-ratio", over: unbounded, why: "no bound: each event passes by chance", ratio: true},
	{name: "proportional-share", over: no, why: "0", parts: true, leases: true},
	{name: "fair-share", over: no, why: "0", parts: true, leases: true},
	{name: "static", over: each, why: "(hosts − 1) · (`limit` · t + `burst`): the limit is each host's", parts: true, leases: true},
	{name: "none", over: unbounded, why: "no bound: it gives what is wanted", parts: true, leases: true},
}

func no(time.Duration) float64 { return 0 }

func unbounded(time.Duration) float64 { return math.Inf(1) }

// pool is the bound that package algorithm proves.
func pool(time.Duration) float64 {
	return builtin.Elastic{}.Overshoot(builtin.Limit{Rate: limit, Burst: burst}, hosts, interval)
}

const whyPool = "`Elastic.Overshoot`"

// hears: each host has the whole bucket until it hears of the others.
func hears(time.Duration) float64 { return (hosts - 1) * (burst + limit*interval.Seconds()) }

// moves: hosts keep their parts for a report while those of others grow.
func moves(time.Duration) float64 { return 2 * limit * interval.Seconds() }

// floors: no host has less than an even part.
func floors(t time.Duration) float64 { return (hosts - 1) * (limit*t.Seconds()/hosts + burst) }

func each(t time.Duration) float64 { return (hosts - 1) * (limit*t.Seconds() + burst) }

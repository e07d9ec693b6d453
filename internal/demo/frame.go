// SPDX-License-Identifier: Apache-2.0

package demo

import "time"

// Frame is what can be seen at one moment. A Frame does not change once it is
// handed out. Rates are per second, over about the last second.
type Frame struct {
	// Headline says in words what goes on.
	Headline string
	// Page is where a browser shows the cluster.
	Page string
	// Notice is the newest warning that a host logged, in one line, or empty.
	Notice string

	// Elapsed of Total; Total is 0 when there is no end. Round counts from 1.
	Elapsed, Total time.Duration
	Round          int

	// Phase is the index in Phases, and Progress how much of it is over, in
	// [0, 1]. Measuring is false while the cluster warms up.
	Phase     int
	Progress  float64
	Measuring bool

	// Limit of the cluster, and what is Offered to it and Failed in it:
	// requests that no host answered, ever.
	Limit, Offered float64
	Failed         int64

	Hosts      []HostRow
	Algorithms []AlgorithmRow
}

// HostRow is one host.
type HostRow struct {
	Name string
	// Hot: most of the traffic goes here. Decides: it owns the key.
	Hot, Decides bool
	Offered      float64
	// Admitted by each algorithm, in the order of Frame.Algorithms.
	Admitted []float64
	// Weight in [0, 1], and the limit InForce, of the algorithm that answers.
	Weight, InForce float64
	State           State
}

// State is what a host's limiter goes by.
type State string

// The states of a host.
const (
	StateGrant    State = "grant"    // its weight of the limit
	StateFallback State = "fallback" // no valid grant: limit ÷ hosts
	StateKilled   State = "killed"
)

// AlgorithmRow is one algorithm, over all hosts.
type AlgorithmRow struct {
	Name string
	// Answers: this is the algorithm whose decision the clients get.
	Answers bool
	// Admitted of Ideal, which is the limit or what is offered, if less.
	Admitted, Ideal float64
	// History is Admitted ÷ Ideal of each past second, oldest first, at most
	// a minute.
	History []float64
}

// Phases are the names of the phases, in order.
func Phases() []string { return []string{"steady", "moved", "killed"} }

// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Scenario is what happens to a cluster. Parse and Load make valid ones;
// nothing changes one afterwards, so several runs may share it.
type Scenario struct {
	// Name and Description are for people.
	Name, Description string

	// Duration is how long it lasts, Warmup how much of its beginning
	// utilisation and false rejects leave out.
	Duration, Warmup time.Duration

	// Hosts are the names of the hosts that limit; Absent, by number, are
	// those that are not there before they join.
	Hosts  []string
	Absent []int

	// Owners is the number of hosts that only decide; 0: the hosts that
	// limit decide too.
	Owners int

	// Clusters are those of a tree, parents first; nil: there is one, without a
	// name.
	Clusters []Cluster

	Network    Network
	Membership Membership
	Limits     *dynamicconfig.Snapshot
	Sources    []Source
	Trace      *traffic.Trace // nil: none
	Steps      []Action
}

// Network is what happens to each message between two hosts, on its way in
// one direction.
type Network struct {
	Latency time.Duration
	Jitter  time.Duration // at most so much more than Latency, at random

	// Parts of the messages, each in [0, 1], that are lost, that arrive
	// twice, and that are held back for HoldBack while others pass.
	Loss, Duplicate, Reorder float64
	HoldBack                 time.Duration
}

// Membership is how hosts hear who is there.
type Membership struct {
	// Detect is the time until a crash is noticed. Who joins or leaves says
	// so.
	Detect time.Duration
	// Splits is the time until hosts notice whom a partition keeps them from reaching, and
	// that they reach them again. 0: they do not notice.
	Splits time.Duration
	// Delay is how long news take to each host, at random. New limits take
	// as long.
	Delay traffic.Span
}

// Source is events on one key from some hosts.
type Source struct {
	Key   string
	Hosts Selection

	// Rate is each host's, or all hosts' together when Total is set. Spread says
	// which host an event of a total goes to. Nil when the source has Bursts.
	Rate   traffic.Rate
	Total  bool
	Spread Spread
	Bursts *traffic.Bursts

	// Even arrivals come at equal distances; others as a Poisson process.
	Even bool

	Cost traffic.Cost // of an event

	// Clients are those that the events come from; nil: nobody asks. With a Key
	// that ends in *, each has a key of its own.
	Clients *traffic.People
	// Retry is what a client does when it is rejected; nil: nothing.
	Retry *traffic.Retry

	// Stay: what is for a host that is not there is lost, and does not go to
	// one of the other hosts.
	Stay bool
}

// Spread is how a load balancer chooses hosts.
type Spread int

// The ways to choose a host.
const (
	SpreadEven   Spread = iota // each host has an equal part
	SpreadRandom               // each event goes to any host
	SpreadSticky               // all events of a client go to one host, by the client's hash
)

// KeyOf is the key of a client's events.
func (s *Source) KeyOf(client int) string {
	if stem, ok := strings.CutSuffix(s.Key, "*"); ok && s.Clients != nil {
		return stem + strconv.Itoa(client)
	}
	return s.Key
}

// KeyCount is how many keys the source has.
func (s *Source) KeyCount() int {
	if s.Clients != nil && strings.HasSuffix(s.Key, "*") {
		return s.Clients.Count()
	}
	return 1
}

// Action is something that happens to the cluster.
type Action struct {
	At    traffic.Time
	Do    string // one of the names in actions
	Hosts Selection
	Mark  string // marks the time, if not empty

	For   time.Duration // how long it lasts; 0: to the end
	Every time.Duration // from one host to the next; 0: all at once

	From      Selection // partition: who is on the other side
	Direction string    // partition: both, in or out, as seen from Hosts
	By        time.Duration
	Elsewhere bool // pause: traffic goes to other hosts instead of waiting

	To, Add float64      // spike: the rate, or how much is added to it, events/s
	Target  float64      // autoscale: events/s of each host
	Odds    [3]int       // mishaps: how likely each is, in parts
	Away    traffic.Span // mishaps: how long an owner is lost

	Key   string  // limit, algorithm, override: which rule
	Limit float64 // limit: events/s
	Burst float64 // limit: tokens

	Algorithm string  // algorithm: the rule's new one
	Factor    float64 // override: of the limit
}

// Bounds of a scenario, so that a mistake does not fill the memory.
const (
	MaxHosts = 20_000
	MaxRate  = 1e7 // events/s of one host
)

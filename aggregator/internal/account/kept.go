// SPDX-License-Identifier: Apache-2.0

package account

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
)

// Kept divides as a Weigh says, and keeps what it said for a part of the interval:
// all hosts that report in that time share it, so a report costs no more when there
// are more hosts.
//
//	if k.Stale(now, host, users) {
//		… k.Add(host, demand) for each …
//		k.Divide(now, capacity)
//	}
//	part, ok := k.Part(host)
type Kept struct {
	weigh    algorithm.Weigh
	settings *Settings

	ends    time.Duration      // until when parts are good
	parts   map[uint32]float64 // of the capacity, by host
	failed  error              // weigh panicked, and is not called again until ends
	hosts   []uint32           // to weigh
	demands []algorithm.Demand
}

// Parted is into how many pieces an interval is divided, in each of which all hosts
// are weighed once.
const Parted = 8

// fewHosts is how many hosts may be weighed for the sake of one more.
const fewHosts = 64

// NewKept returns a Kept of w.
func NewKept(w algorithm.Weigher, s *Settings) *Kept { return &Kept{weigh: w.Weigh, settings: s} }

// Stale reports whether to weigh anew at now for the sake of host, when so many
// hosts want something. Beyond a few hosts, one that is new takes a quarter more of
// them: it costs little per host when all of them come to a new owner at once.
// Until parts end, Stale panics if Divide has: a panic anew would cost more than all else
// that a report does.
func (k *Kept) Stale(now time.Duration, host uint32, users int) bool {
	switch {
	case now >= k.ends:
		return true
	case k.failed != nil:
		panic(k.failed)
	}
	if _, ok := k.parts[host]; ok {
		return false
	}
	had := len(k.parts)
	return had < fewHosts || users > had+had/4
}

// Add adds what host wants, if it wants something.
func (k *Kept) Add(host uint32, d algorithm.Demand) {
	if !(d.Wants > 0) {
		return
	}
	if k.settings.Member != nil {
		m := k.settings.Member(host)
		d.Host, d.Labels = m.Name, m.Labels
	}
	k.hosts, k.demands = append(k.hosts, host), append(k.demands, d)
}

// Divide weighs all that were added since the last time.
func (k *Kept) Divide(now time.Duration, capacity float64) {
	hosts, demands := k.hosts, k.demands
	k.hosts, k.demands, k.failed = nil, nil, nil
	k.ends = now + k.settings.Interval/Parted
	parts, all := make([]float64, len(hosts)), 0.0
	if !(capacity > 0) {
		capacity = 1 // of nothing, all parts are 0
	} else if len(hosts) > 0 {
		func() {
			defer rpc.Recovered(&k.failed)
			given := slices.Clone(demands)
			if k.weigh(capacity, demands, parts); !slices.EqualFunc(given, demands, same) {
				k.failed = errChanged // parts may be those of other hosts
			}
		}()
	}
	if k.failed != nil {
		panic(k.failed)
	}
	for _, part := range parts {
		all += max(part, 0) // a host with less than nothing leaves no more for others
	}
	if math.IsInf(all, 1) { // the other hosts would have 0 of it: now no host has a part
		all = math.NaN()
	}
	k.parts = make(map[uint32]float64, len(hosts))
	for i, host := range hosts {
		k.parts[host] = parts[i] / max(all, capacity) // in proportion, if they are too much
	}
}

// errChanged is why no host has a part.
var errChanged = errors.New("the weigher changed its demands, such as by sorting them: let it change a copy")

// same reports whether a and b are the same but for their labels.
func same(a, b algorithm.Demand) bool {
	return a.Host == b.Host && a.Wants == b.Wants && a.Has == b.Has && a.Clients == b.Clients
}

// Part is host's part of the capacity; false if the host was not there yet. A Weigh may
// have made anything of it; Valid reports whether it is one.
func (k *Kept) Part(host uint32) (part float64, ok bool) {
	part, ok = k.parts[host]
	return part, ok
}

// Forget forgets host, whose number another one may have from now on.
func (k *Kept) Forget(host uint32) { delete(k.parts, host) }

// Valid reports whether part can be a part.
func Valid(part float64) bool { return part >= 0 && part <= 1 }

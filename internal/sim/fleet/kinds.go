// SPDX-License-Identifier: Apache-2.0

package fleet

import "github.com/headgate/headgate/internal/sim/timeline"

// The kinds of the events of a Fleet.
const (
	report    timeline.Kind = iota // who: host, ref: number of the schedule that it belongs to
	request                        // who: owner, ref: message
	answer                         // who: host, ref: message
	collect                        // who: owner; ref: its process
	view                           // who: host, ref: version of the membership
	noticed                        // who: host; it notices whom it reaches
	version                        // ref: version of the membership: from now on it spreads
	configure                      // who: host, ref: version of the config
	ascend                         // who: owner, ref: its process; asks the cluster above, if need be
	claimed                        // who: owner above, ref: message
	leased                         // who: owner, ref: message
	lapse                          // who: owner, ref: number of the climb that is given up
	murmur                         // who: host, ref: its process; tells others what it used
	hears                          // who: host, ref: message
	agreed                         // who: host that told, ref: message
	hushed                         // who: the same, ref: message that is given up
	asked                          // who: owner, ref: message
	replied                        // who: host that asked, ref: message
	wakes                          // who: host, ref: message that has the worker
	runs                           // who: host, ref: message that has the job

	// Kinds is how many there are: others than a Fleet's begin here.
	Kinds
)

// hasMessage reports whether the ref of an event at a host is a message.
func hasMessage(k timeline.Kind) bool {
	switch k {
	case request, answer, claimed, leased, hears, agreed, hushed, asked, replied, wakes, runs:
		return true
	}
	return false
}

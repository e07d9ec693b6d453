// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net/netip"
	"sync"
	"time"
)

// resetsWithin is the time for which Limits.Resets and Limits.Frames are counted.
const resetsWithin = time.Second

// resets are the requests that were reset, or the frames that did nothing, also on connections that are closed by now.
// The zero value has none. Safe for concurrent use.
type resets struct {
	mu    sync.Mutex // protects following fields
	since time.Time
	all   int // since then
	of    map[netip.Prefix]int
}

// add notes n resets of a peer. It reports whether there are more than most, and more of
// this peer than its even part of most.
func (r *resets) add(peer netip.Prefix, n, most int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.of == nil || now.Sub(r.since) >= resetsWithin {
		r.since, r.all, r.of = now, 0, make(map[netip.Prefix]int)
	}
	r.all += n
	r.of[peer] += n
	return r.all > most && r.of[peer] > most/len(r.of)
}

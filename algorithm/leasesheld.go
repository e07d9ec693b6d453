// SPDX-License-Identifier: Apache-2.0

package algorithm

// Held yields, for each host, a claim to keep what it holds, with the bands that
// it wants: what another account needs to go on in place of l. The bands are
// good until the next yield. Nothing else may be done with l meanwhile.
func (l *Leases) Held(yield func(host uint32, claim Claim) bool) {
	var bands [maxBands]Band
	for i, r := range l.rows.All {
		n := 0
		for at := r.first; at != nobody; at = l.wanted.nodes[at].next {
			own := l.wanted.nodes[at].own()
			own.Priority = l.bands[l.wanted.nodes[at].band].priority
			bands[n] = own
			n++
		}
		if !yield(l.rows.Host(i), Claim{Has: r.part + r.beyond, Bands: bands[:n], Keep: true, Headroom: r.loose}) {
			return
		}
	}
}

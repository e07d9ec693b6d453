// SPDX-License-Identifier: Apache-2.0

package limiter

// Looking ahead. Shares that are not looked at in the order in which they lie
// in memory have to be waited for, one after another, because what is done
// with one is too long for the processor to see the next. It sees many if
// nothing is done but to read from each of their cache lines.

// ahead is how many shares are fetched at once.
const ahead = 32

// fetch reads from the shares of some rows, unless they lie side by side. What
// it returns keeps the compiler from leaving that out.
//
//go:noinline
func (b *Batch) fetch(rows []int) (read int64) {
	if rows[len(rows)-1]-rows[0] < 4*len(rows) {
		return 0
	}
	for _, at := range rows {
		s := b.rows[at].share
		read += s.allowed.Load() + s.largest.Load() + int64(s.pulse.gap) + int64(len(s.key)) +
			int64(s.grant.until) + int64(s.reported.at) + int64(s.waiting)
	}
	return read
}

// fetchPulses reads from as much of shares as a look at their demand needs.
//
//go:noinline
func fetchPulses(shares []*share) (read int64) {
	for _, s := range shares {
		read += s.allowed.Load() + s.pulse.askAt.Load() + int64(s.pulse.gap)
	}
	return read
}

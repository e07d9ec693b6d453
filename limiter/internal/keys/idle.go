// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"github.com/headgate/headgate/limiter/internal/fit"
	"github.com/headgate/headgate/limiter/stage"
)

// idleKeys are keys that only keep their place in the table, each until an Instant. A caller may
// use such a key at any time: then it is live again, and not among them any more. The zero
// idleKeys are none. They are for one caller at a time.
type idleKeys struct {
	all []idler // with some that are live again since the last take
}

type idler struct {
	k     *Key
	until stage.Instant
}

// add adds k, which is idle. k was live at the last take, or not yet made.
func (i *idleKeys) add(k *Key, until stage.Instant) { i.all = append(i.all, idler{k, until}) }

// take takes out the keys whose Instant has come by now, and calls f with each.
func (i *idleKeys) take(now stage.Instant, f func(k *Key)) {
	still := i.all[:0]
	for _, of := range i.all {
		switch {
		case !of.k.Idle():
		case now >= of.until:
			f(of.k)
		default:
			still = append(still, of)
		}
	}
	clear(i.all[len(still):])
	i.all = fit.Slice(still)
}

// len is how many there are, with those that are live again since the last take.
func (i *idleKeys) len() int { return len(i.all) }

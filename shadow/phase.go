// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"math"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// role is an index of the two sides, or none.
type role int8

const none role = -1

// roles names, for each mode, the side that answers and the side that is only
// measured.
var roles = [...]struct{ primary, shadow role }{
	dynamicconfig.ModeDisabled:     {none, none},
	dynamicconfig.ModeOld:          {0, none},
	dynamicconfig.ModeOldShadowNew: {0, 1},
	dynamicconfig.ModeNewShadowOld: {1, 0},
	dynamicconfig.ModeNew:          {1, none},
}

// unlimited is the level while the mode is disabled.
var unlimited = stage.Level{Limit: rate.Inf, Burst: math.Inf(1), Tokens: math.Inf(1)}

// phase is the mode in force and the counts so far.
type phase struct {
	mode atomic.Uint32 // always a mode that exists

	// Every measured call writes counts. The padding keeps them out of the
	// cache lines of the fields that every call reads.
	_      [64]byte
	counts [skipped + 1]atomic.Int64
	_      [64]byte
}

// skipped is the index of Divergence.Skipped. The other indexes are 1 if the old
// side allowed the request, plus 2 if the new side did.
const skipped = 4

// Mode is the mode in force.
func (p *phase) Mode() dynamicconfig.Mode { return dynamicconfig.Mode(p.mode.Load()) }

// Counts returns the tokens or slots that callers requested while both sides were asked,
// grouped by the sides that allowed the request. Calls that run meanwhile may be missing.
func (p *phase) Counts() stage.Divergence {
	n := func(i int) int64 { return p.counts[i].Load() }
	return stage.Divergence{Neither: n(0), OnlyOld: n(1), OnlyNew: n(2), Both: n(3), Skipped: n(skipped)}
}

// maxCost is the most tokens of one request that count. It keeps the sums from
// overflowing.
const maxCost = 1 << 40

// compare counts n under the answers of the primary and the shadow.
func (p *phase) compare(shadow role, primaryOK, shadowOK bool, n int64) {
	i := 0
	if primaryOK {
		i = 2 >> (shadow & 1)
	}
	if shadowOK {
		i |= 1 << (shadow & 1)
	}
	p.counts[i&3].Add(min(n, maxCost))
}

// existing returns mode, or ModeDisabled if there is no such mode.
func existing(mode dynamicconfig.Mode) dynamicconfig.Mode {
	if int(mode) < len(roles) {
		return mode
	}
	return dynamicconfig.ModeDisabled
}

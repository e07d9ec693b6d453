// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"math"

	"github.com/headgate/headgate/limiter/stage"
)

// alone notices that this host's bucket is in debt while others have tokens.
//
// A bucket that is full does not fill. If messages are late meanwhile, because of
// a pause, a loss or a partition, the bucket is charged later with tokens that it
// never had. A process that starts may be charged twice with what others used. While
// the hosts want more than the limit, the others use all that is filled in, so this debt
// would never be paid back, and the host would get nothing.
//
// So the debt ends if it lasts for longer than late messages are paid back, and all
// that other hosts sent meanwhile says that they had more. Debts that all hosts
// have stay.
type alone struct {
	since stage.Instant // when the debt began; math.MaxInt64: there is none
	lack  float64       // the least that others had more, since then
}

var noDebt = alone{since: math.MaxInt64}

// observe takes in that a host that used tokens has lack tokens more than this host,
// whose bucket is at level. It returns how many tokens to give back.
func (a *alone) observe(now stage.Instant, level, lack float64, p *pauses) float64 {
	switch {
	case level >= 0:
		*a = noDebt
	case a.since == math.MaxInt64:
		*a = alone{since: now, lack: lack}
	default:
		if a.lack = min(a.lack, lack); now.Sub(a.since) > p.most() {
			give := max(min(a.lack, -level), 0)
			*a = noDebt
			return give
		}
	}
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"testing"
	"time"
)

func wants(w float64) []Band { return []Band{{Clients: 1, Wants: w}} }

var minute = Terms{Lease: time.Minute}

func TestHostsThatArriveOneByOneGetWhatIsLeft(t *testing.T) {
	l := ProportionalShare{}.NewLeases()
	for host, tt := range []struct{ wants, want float64 }{{60, 60}, {75, 60}, {10, 0}} {
		got := l.Claim(0, minute, Capacity{Amount: 120}, uint32(host), Claim{Bands: wants(tt.wants)})
		if got != (Lease{Amount: tt.want, Until: time.Minute}) {
			t.Errorf("host %d wants %v and gets %+v, want %v", host, tt.wants, got, tt.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sim/traffic"
)

func TestQueueKeepsTheOrderOfTimeAndPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var dumb []event
		seq := uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			at := traffic.Time(rapid.Int64Range(0, 20).Draw(t, "at"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if len(dumb) > 0 {
					if got := q.pop(); got != dumb[0] {
						t.Fatalf("pop = %+v, want %+v", got, dumb[0])
					}
					dumb = dumb[1:]
				}
			case 1:
				if len(dumb) > 0 {
					q.again(at)
					seq++
					dumb[0].at, dumb[0].seq = at, seq
				}
			default:
				q.push(at, report, 1, int32(seq))
				seq++
				dumb = append(dumb, event{at: at, seq: seq, who: 1, ref: int32(seq - 1), kind: report})
			}
			slices.SortFunc(dumb, func(a, b event) int {
				return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
			})
		}
	})
}

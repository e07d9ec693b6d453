// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sim/traffic"
)

func TestQueueKeepsTheOrderOfTimeAndPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var dumb []Event
		seq := uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			at := traffic.Time(rapid.Int64Range(0, 20).Draw(t, "at"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if len(dumb) > 0 {
					if got := q.Pop(); got != dumb[0] {
						t.Fatalf("pop = %+v, want %+v", got, dumb[0])
					}
					dumb = dumb[1:]
				}
			case 1:
				if len(dumb) > 0 {
					q.Again(at)
					seq++
					dumb[0].At, dumb[0].seq = at, seq
				}
			default:
				q.Push(at, 2, 1, int32(seq))
				seq++
				dumb = append(dumb, Event{At: at, seq: seq, Who: 1, Ref: int32(seq - 1), Kind: 2})
			}
			slices.SortFunc(dumb, func(a, b Event) int {
				return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.seq, b.seq))
			})
		}
	})
}

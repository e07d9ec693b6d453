// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// one has all keys, and lets everything through that begins with k.
type one struct{}

func (one) Owner(string) string { return "me" }

func (one) TakeHere(_ string, t usage.Take) (usage.Took, uint32) {
	if t.Key[0] != 'k' {
		return usage.Took{}, 1
	}
	return usage.Took{Decided: true, OK: true}, 1
}

// The keys of a message share one string. What is remembered of a few of them
// does not keep all of it.
func TestAMessageIsNotKeptForOneOfItsKeys(t *testing.T) {
	const messages, size = 32, 2 << 20
	forward := &Forward{Taker: &Taker{Host: "me", Placement: one{}, Self: "me", Local: one{}}}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // pools are emptied by the second
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range messages {
		takes := &usage.Takes{Caller: 7, Batch: uint64(i + 1), Rows: []usage.Take{{Key: fmt.Sprint("k", i), Tokens: 1}}}
		for j := range size / rpc.MaxKeyLength {
			other := strings.Repeat("xy"[j%2:j%2+1], rpc.MaxKeyLength) // two keys, over and over
			takes.Rows = append(takes.Rows, usage.Take{Key: other, Tokens: 1})
		}
		payload, err := usage.EncodeTakes(takes)
		if err == nil {
			_, err = forward.Update(t.Context(), "edge", payload)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	grew := heap() - before
	runtime.KeepAlive(forward)
	t.Logf("%d bytes for %d messages of %d", grew, messages, size)
	if most := int64(messages * size / 8); grew > most {
		t.Errorf("%d bytes are kept of %d messages of %d; want at most %d", grew, messages, size, most)
	}
}

// Callers of an edge choose names of keys, also of keys that no rule has. What is remembered of
// the longest ones takes little more memory than that of usual ones.
func TestLongNamesOfKeysTakeBoundedMemory(t *testing.T) {
	var k toldKeys
	for i := range 2 * len(k.parts) * maxYoung {
		k.fails(account{key: fmt.Sprintf("%0*d", rpc.MaxKeyLength, i)})
	}
	bytes := 0
	for i := range k.parts {
		for _, all := range []map[account]told{k.parts[i].young, k.parts[i].old} {
			for of := range all {
				bytes += len(of.key)
			}
		}
	}
	if most := 2 * len(k.parts) * maxNames; bytes > most {
		t.Errorf("%d bytes of names are remembered, want at most %d", bytes, most)
	}
}

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

// heldBytes are those of the heap that are in use.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The keys of a message share one string. What is remembered of a few of them
// does not keep all of it.
func TestAMessageIsNotKeptForOneOfItsKeys(t *testing.T) {
	const messages, size = 32, 2 << 20
	forward := &Forward{Taker: &Taker{Host: "me", Placement: one{}, Self: "me", Local: one{}}}
	before := heldBytes()
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
	grew := heldBytes() - before
	runtime.KeepAlive(forward)
	t.Logf("%d bytes for %d messages of %d", grew, messages, size)
	if most := int64(messages * size / 8); grew > most {
		t.Errorf("%d bytes are kept of %d messages of %d; want at most %d", grew, messages, size, most)
	}
}

// Callers of an edge choose names of keys, also of keys that no rule has. What is remembered of
// the longest ones takes as little memory as that of usual ones.
func TestWhatIsRememberedOfAKeyTakesLittleMemory(t *testing.T) {
	const most = 90 // bytes
	for _, length := range []int{24, rpc.MaxKeyLength} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			var k lastAnswers
			n := len(k.parts) * maxYoung / 2
			before := heldBytes()
			for i := range n {
				k.record(0, account{key: fmt.Sprintf("%0*d", length, i)}, usage.Took{Decided: true}, 1)
			}
			each := float64(heldBytes()-before) / float64(n)
			runtime.KeepAlive(&k)
			t.Logf("%.0f bytes", each)
			if each > most {
				t.Errorf("%.0f bytes are kept of a key; want at most %d", each, most)
			}
		})
	}
}

// The two buckets of a key, and keys with other names, have answers of their own.
func TestEachAccountHasAnAnswerOfItsOwn(t *testing.T) {
	var k lastAnswers
	for i := range 1000 {
		key := fmt.Sprint("key-", i)
		k.record(0, account{key, false}, usage.Took{Decided: true, Left: float64(i)}, 1)
		k.record(0, account{key, true}, usage.Took{Decided: true, Left: float64(-i)}, 2)
	}
	for i := range 1000 {
		plain, measured := usage.Take{Key: fmt.Sprint("key-", i)}, usage.Take{Key: fmt.Sprint("key-", i), Measured: true}
		k.fill(0, &plain)
		k.fill(0, &measured)
		if plain.Told != float64(i) || plain.By != 1 || measured.Told != float64(-i) || measured.By != 2 {
			t.Errorf("key %d: told %g by %d, and measured %g by %d", i, plain.Told, plain.By, measured.Told, measured.By)
		}
	}
}

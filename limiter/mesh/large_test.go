// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

func use(t *testing.T, h *host, keys int, name func(int) string) {
	t.Helper()
	for i := range keys {
		if _, err := h.Do(t.Context(), stage.Operation{Key: name(i), Rule: ruled(0, 10), N: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// A host that joins a cluster with many keys receives all of them, though that
// takes longer than a round.
func TestANewHostReceivesManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ruled(0, 10), "a", "b")
		defer c.stopAll()
		c.network.SetFaults("a", "b", rpctest.Faults{Delay: 200 * time.Millisecond})
		const keys = 5 * rpc.MaxMeshRows
		use(t, c.hosts["a"], keys, func(i int) string { return fmt.Sprint("k", i) })
		after(20)
		if got := c.hosts["b"].keys.Load(); got != keys {
			t.Errorf("it received %d keys of %d", got, keys)
		}
	})
}

// Transports take messages of up to 4 MiB.
func TestMessagesOfLongKeysAreNotTooLarge(t *testing.T) {
	m := New("a", always(ruled(0, 10)), Config{})
	m.SetPeers([]string{"a", "b"})
	const keys = rpc.MaxMeshRows
	use(t, &host{Mesh: m}, keys, func(i int) string {
		key := fmt.Sprint("k", i)
		return key + strings.Repeat("x", rpc.MaxKeyLength-len(key))
	})
	rows := 0
	for _, message := range m.RoundAt(stage.Now()) {
		for _, g := range message.Gossips {
			payload, err := meshusage.Encode(g)
			if err != nil {
				t.Fatal(err)
			}
			rows += len(g.Rows)
			if size := len(payload.Value); size > 4<<20-1<<10 {
				t.Errorf("a message of %d rows has %d bytes", len(g.Rows), size)
			}
		}
	}
	if rows != keys {
		t.Errorf("%d rows of %d", rows, keys)
	}
}

// Of a host that restarts again and again, keys keep one count.
func TestProcessesThatAreReplacedAreForgotten(t *testing.T) {
	rule := ruled(10, 10)
	m := New("a", always(rule), Config{})
	m.SetPeers([]string{"a", "b"})
	now := stage.Instant(0)
	for i := range 20 {
		g := &meshusage.Report{From: uint64(100 + i), Version: 9, After: 1}
		if i%2 == 0 { // every other one uses the key
			g.Rows = []meshusage.Used{{Key: "k", Born: 3, Tokens: 1, Left: 9}}
		}
		if err := m.ReceiveAt(now, "b", g); err != nil {
			t.Fatal(err)
		}
		now = now.Add(sweepEvery)
		m.sweep(now)
		m.dropIdle(now)
	}
	if e := m.shard("k").entries["k"]; e == nil || len(e.others) > 1 {
		t.Errorf("after restarts of one host: %+v", e)
	}
}

// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"testing"
	"unsafe"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// An edge counts what it remembers in rows, so it keeps no room for more rows.
func TestAnEdgeKeepsNoRoomForTakesThatMovedNothing(t *testing.T) {
	rows, took := make([]usage.Take, rpc.MaxTakes), make([]usage.Took, rpc.MaxTakes)
	for i := range rows {
		rows[i] = usage.Take{Key: "k", Tokens: 1}
		took[i] = usage.Took{Decided: true, Retry: 1}
	}
	took[rpc.MaxTakes/2] = usage.Took{Decided: true, OK: true}
	var a answeredTakes
	kept := 0
	for batch := range uint64(1000) {
		undo := opposites(rows, took)
		if len(undo) != 1 || undo[0].Tokens != -1 {
			t.Fatalf("undone by %+v", undo)
		}
		if !a.add(takeID{1, batch}, undo) {
			t.Fatal("not remembered")
		}
	}
	for _, one := range a.young {
		kept += cap(one) * int(unsafe.Sizeof(usage.Take{}))
	}
	if most := 2 * a.rows * int(unsafe.Sizeof(usage.Take{})); kept > most {
		t.Errorf("%d rows take %d bytes, at most %d", a.rows, kept, most)
	}
}

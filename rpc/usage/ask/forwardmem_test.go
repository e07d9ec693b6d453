// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"testing"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// An edge counts the bytes of what it remembers, so it keeps no room for more rows.
func TestAnEdgeKeepsNoRoomForTakesThatMovedNothing(t *testing.T) {
	rows, took := make([]usage.Take, rpc.MaxTakes), make([]usage.Took, rpc.MaxTakes)
	for i := range rows {
		rows[i] = usage.Take{Key: "k", Tokens: 1}
		took[i] = usage.Took{Decided: true, Retry: 1}
	}
	took[rpc.MaxTakes/2] = usage.Took{Decided: true, OK: true}
	answer, err := usage.EncodeTaken(&usage.Taken{By: 1, Rows: took}, len(took))
	if err != nil {
		t.Fatal(err)
	}
	undo := opposites(rows, took)
	if len(undo) != 1 || undo[0].Tokens != -1 {
		t.Fatalf("undone by %+v", undo)
	}
	if cap(undo) != 1 {
		t.Errorf("room for %d rows", cap(undo))
	}
	var a answeredTakes
	for batch := range uint64(10_000) {
		id := takeID{1, batch}
		b, again := a.begin(id)
		answer.Value = make([]byte, len(answer.Value))
		if again || a.end(id, b, undo, answer, nil) != nil {
			t.Fatal("not remembered")
		}
		if again, known := a.begin(id); again != b || !known {
			t.Fatal("not recognized")
		}
	}
	for _, all := range []map[takeID]*answered{a.young, a.old} {
		kept := 0
		for _, one := range all {
			kept += bytesPerBatch + bytesPerUndo + cap(one.answer)
		}
		if kept > maxAnswered {
			t.Errorf("%d batches take %d bytes, at most %d", len(all), kept, maxAnswered)
		}
	}
	if len(a.old) == 0 {
		t.Error("no batch has become old: the test tests nothing")
	}
}

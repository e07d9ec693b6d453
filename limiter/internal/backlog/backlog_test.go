// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"testing"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// debtor is a Stage of one account.
type debtor struct {
	outbox elsewhere.Outbox
	gone   bool
}

func (d *debtor) Account() Account          { return Account{Under: "exact", Key: "k"} }
func (d *debtor) Outbox() *elsewhere.Outbox { return &d.outbox }
func (d *debtor) Gone() bool                { return d.gone }

// owing returns a debtor in b.
func owing(b *Backlog[*debtor], gone bool) *debtor {
	d := &debtor{gone: gone}
	d.outbox.Add(1)
	if d.outbox.List() {
		b.Add(d)
	}
	return d
}

// A Backlog keeps nothing for Stages that have sent everything, and no map of those whose keys
// decide by them.
func TestABacklogHasWhatIsUnsent(t *testing.T) {
	var b Backlog[*debtor]
	all := make([]*debtor, 2000)
	for i := range all {
		all[i] = owing(&b, false)
	}
	if b.gone != nil || b.Before(all[0]) != nil {
		t.Error("a Stage whose key decides by it is among those that have left theirs")
	}
	for _, d := range all[:1000] {
		d.gone = true
		b.Left(d)
	}
	if b.Before(all[1000]) != all[999] {
		t.Error("the last Stage that has left the key is not known")
	}
	for _, d := range all {
		d.outbox.Add(-1)
	}
	if b.Tidy(0); len(b.entries) != 0 || cap(b.entries) != 0 || b.gone != nil {
		t.Errorf("%d Stages are listed, with room for %d, and %d have left their keys", len(b.entries), cap(b.entries), len(b.gone))
	}
	if b.Left(all[0]); b.gone != nil {
		t.Error("a Stage that is not listed is known after it has left its key")
	}
}

// A Stage that has left its key is listed for a time, and not with any number of others.
func TestStagesThatHaveLeftAreListedForATime(t *testing.T) {
	var b Backlog[*debtor]
	owing(&b, false)
	for range most + 10 {
		owing(&b, true)
	}
	for _, row := range []struct {
		at   stage.Instant
		want int
	}{{0, most + 1}, {stage.Instant(sendsFor) - 1, most + 1}, {stage.Instant(sendsFor), 1}} {
		if b.Tidy(row.at); len(b.Stages()) != row.want {
			t.Errorf("at %d, %d Stages are listed, want %d", row.at, len(b.Stages()), row.want)
		}
	}
}

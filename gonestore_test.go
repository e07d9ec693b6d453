// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sql"
	"github.com/headgate/headgate/dynamicconfig/sql/sqlite"
	"github.com/headgate/headgate/internal/bubble"
)

// outage is a database that does not answer for a time.
type outage struct {
	*sql.Store

	down *atomic.Bool
}

var errDown = errors.New("the database is down")

func (o outage) Newest(ctx context.Context) (history.Version, error) {
	if o.down.Load() {
		return history.Version{}, errDown
	}
	return o.Store.Newest(ctx)
}

func (o outage) Get(ctx context.Context, number int64) (history.Version, error) {
	if o.down.Load() {
		return history.Version{}, errDown
	}
	return o.Store.Get(ctx, number)
}

// While the database of limits is down for ten minutes, hosts decide as before, second by second.
// Once it is back, they follow it within two seconds.
func TestADatabaseThatIsDownChangesNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sqlite.New(t.TempDir())
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		change := history.Change{Text: "limits: [{key: k, limit: 30/s}]", Author: "a", Message: "m"}
		v, err := store.Append(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		var down atomic.Bool
		nodes, _ := bubble.StartWith(t, 3, func(int) dynamicconfig.Source { return history.NewSource(outage{store, &down}, 0) })
		second := func() (admitted int) {
			for range 100 { // of each host, so that the limit is asked for ten times over
				time.Sleep(10 * time.Millisecond)
				for _, n := range nodes {
					if n.For("k").Allow() {
						admitted++
					}
				}
			}
			return admitted
		}
		minute := func() (admitted int) {
			for range 60 {
				admitted += second()
			}
			return admitted
		}
		minute() // in which hosts learn
		before := minute()
		down.Store(true)
		for n := range 10 {
			admitted := minute()
			if admitted < before*99/100 || admitted > before*101/100 {
				t.Errorf("in minute %d without the database, %d events are admitted; %d before", n+1, admitted, before)
			}
		}
		for _, n := range nodes {
			if n.Limits().LastError() == nil {
				t.Errorf("%s does not say that the database is down", n.Address())
			}
		}
		change.Base, change.Text = v.Number, "limits: [{key: k, limit: 60/s}]"
		if _, err := store.Append(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		down.Store(false)
		time.Sleep(2 * time.Second)
		for _, n := range nodes {
			if rule := n.For("k").Rule(); rule == nil || rule.Limit != 60 || n.Limits().LastError() != nil {
				t.Errorf("%s goes by %+v 2 s after the database is back, %v", n.Address(), rule, n.Limits().LastError())
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sql"
	"github.com/headgate/headgate/dynamicconfig/sql/sqlite"
	"github.com/headgate/headgate/internal/bubble"
)

// 50 hosts follow a database. A change that one of them does not hear of by itself decides at
// all of them within two seconds, and within the half second between two looks of the source.
func TestAChangeReaches50Hosts(t *testing.T) {
	const hosts, changes = 50, 20
	limits := func(limit int) string {
		return fmt.Sprintf("limits: [{key: k, limit: %d/s, burst: %[1]d, algorithm: even}]", limit)
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		open := func() *sql.Store {
			s := sqlite.New(dir)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}
		author := open()
		change := history.Change{Text: limits(hosts), Author: "a", Message: "m"}
		write := func() {
			v, err := author.Append(t.Context(), change)
			if err != nil {
				t.Fatal(err)
			}
			change.Base = v.Number
		}
		write()
		nodes, _ := bubble.StartWith(t, hosts, func(int) dynamicconfig.Source {
			time.Sleep(history.DefaultPoll / hosts * 3) // so that hosts look at different times
			return history.NewSource(open(), 0)
		})

		var mu sync.Mutex
		var took []time.Duration
		began, want := time.Now(), 0.0
		for _, n := range nodes {
			n.For("k").Allow()
			cancel := n.Limits().Subscribe(func(_, _ *dynamicconfig.Snapshot) {
				n.For("k").Allow()
				status, ok := n.Group().Inspect("k")
				mu.Lock()
				defer mu.Unlock()
				if got := float64(status.Shares[0].Level.Limit); !ok || math.Abs(got-want) > 1e-6*want {
					t.Errorf("%s was told, and decides by %v, want %v", n.Address(), got, want)
				}
				took = append(took, time.Since(began))
			})
			defer cancel()
		}
		for i := range changes {
			time.Sleep(2*time.Second + 37*time.Millisecond)
			mu.Lock()
			if len(took) != i*hosts {
				t.Errorf("after 2 seconds, %d of %d hosts have change %d", len(took)-(i-1)*hosts, hosts, i)
			}
			began, want = time.Now(), float64(i+2)
			mu.Unlock()
			change.Text = limits((i + 2) * hosts)
			write()
		}
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(took)
		if len(took) != changes*hosts {
			t.Fatalf("%d of %d changes arrived", len(took), changes*hosts)
		}
		median, worst := took[len(took)/2], took[len(took)-1]
		t.Logf("%d changes at %d hosts: median %v, worst %v", changes, hosts, median, worst)
		if worst > history.DefaultPoll+50*time.Millisecond {
			t.Errorf("the last host had a change after %v", worst)
		}
	})
}

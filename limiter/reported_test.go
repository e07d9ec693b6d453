// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

// The rule of a key changes several times between two reports, to migrations and back. What elastic let pass is
// reported, as used, as refused or as a charge, whatever the key goes on under.
func TestEventsOfElasticAreReportedThroughAnyMigrations(t *testing.T) {
	algorithms, modes := []string{"elastic", "request-weighted", "auto"}, []string{"old", "old-shadow-new", "new-shadow-old", "new"}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		now, said, elastic := stage.Now(), []string(nil), false
		rules := func() string {
			then := "algorithm: " + algorithms[r.IntN(3)]
			if elastic = strings.HasSuffix(then, "elastic"); r.IntN(2) == 0 {
				from := r.IntN(3)
				to, mode := (from+1+r.IntN(2))%3, modes[r.IntN(4)]
				elastic = strings.HasPrefix(mode, "old") && from == 0 || strings.HasPrefix(mode, "new") && to == 0
				then = "migrate: {from: " + algorithms[from] + ", to: " + algorithms[to] + ", mode: " + mode + "}"
			}
			said = append(said, then)
			return "limits: [{key: k, limit: 10/s, burst: 10, " + then + "}]"
		}
		g := limiter.NewGroup(traceLimits(t, rules()), 1, limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("auto", &drained{left: 1e9}), driver.WithBackground(func(f func()) { f() }))
		m, used, reported := driver.Of(g), int64(0), int64(0)
		send := func(batches []*driver.Batch, answered bool, lease time.Duration) {
			for _, b := range batches {
				if !answered {
					m.Fail(now, b, nil)
					continue
				}
				grants := &usage.Grants{
					Floor: usage.FloorEven, Weight: []float64{0.5}, Burst: []float64{5}, Used: []float64{5}, Lease: []time.Duration{lease},
				}
				if b.Usage.Algorithm != "request-weighted" {
					grants.Tokens = []float64{5}
				}
				for i := range b.Usage.Len() { // a key that left an algorithm may have two rows
					reported += b.Usage.Allowed[i] + b.Usage.Rejected[i]
					if err := m.Apply(now, b, []int{i}, grants); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for range 12 {
			now = now.Add(time.Duration(r.IntN(900)+1) * time.Millisecond)
			switch r.IntN(5) {
			case 0, 1:
				if n := int64(r.IntN(6) + 1); elastic {
					g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: n, Kind: stage.Final})
					used += n
					said = append(said, "an event")
				}
			case 2, 3:
				m.Configure(now, traceLimits(t, rules()))
			case 4:
				lease := 10 * time.Second * time.Duration(r.IntN(2))
				send(slices.Concat(m.Report(now), m.Early(now)), r.IntN(3) > 0, lease)
				said = append(said, "a report")
			}
		}
		for range 12 {
			now = now.Add(3 * time.Second)
			send(m.Report(now), true, 10*time.Second)
		}
		if reported < used {
			t.Fatalf("seed %d: %d of %d are reported, after %s", seed, reported, used, strings.Join(said, "; "))
		}
	}
}

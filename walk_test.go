// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
)

// Rules move between a bucket on the host and its owner's at any time, through any mode of a migration, under several
// shapes of traffic. What passes beside a limit and a burst depends on when reports come. It was 0.06 of a burst in the
// worst of some thousand walks.
func TestNoWalkThroughRulesGivesASecondBurst(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { walk(t, seed) })
	}
}

// walk is one node's, whose rule changes at times that are drawn.
func walk(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	limit, burst := []float64{2, 20, 200}[r.IntN(3)], []float64{10, 50, 400}[r.IntN(3)]
	told := ""
	config := func() *dynamicconfig.Snapshot {
		how := "algorithm: " + []string{"exact", "even"}[r.IntN(2)]
		if r.IntN(2) == 0 {
			i := r.IntN(2)
			how = fmt.Sprintf("migrate: {from: %s, to: %s, mode: %s}", []string{"exact", "even"}[i], []string{"even", "exact"}[i],
				[]string{"old", "old-shadow-new", "new-shadow-old", "new"}[r.IntN(4)])
		}
		told += fmt.Sprintf("\n%v {%s}", time.Now().Format(time.TimeOnly), how)
		s, err := dynamicconfig.Parse("test", fmt.Appendf(nil, "defaults: {update_interval: 500ms, lease: 5s}\nlimits: [{key: k, limit: %v/s, burst: %v, %s}]", limit, burst, how))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	source := memory.New(config())
	nodes, _ := bubble.StartWith(t, 1, func(int) dynamicconfig.Source { return source })
	time.Sleep(time.Second)
	began, allowed := time.Now(), 0.0
	next, end := began.Add(time.Duration(r.IntN(8000))*time.Millisecond), began.Add(time.Minute)
	gap := time.Duration(float64(time.Second) / limit / []float64{0.5, 2, 5}[r.IntN(3)])
	bursts := r.IntN(2) == 0
	for now := began; now.Before(end); now = time.Now() {
		if now.After(next) {
			source.Set(config())
			next = now.Add(time.Duration(r.ExpFloat64() * 4 * float64(time.Second)))
		}
		n := 1
		if bursts {
			n = 1 + r.IntN(30)
		}
		time.Sleep(time.Duration(r.ExpFloat64() * float64(gap) * float64(n)))
		for range n {
			if cost := 1 + max(r.IntN(20)-15, 0); nodes[0].For("k").AllowN(time.Now(), cost) {
				allowed += float64(cost)
			}
		}
		over := allowed - burst - limit*time.Since(began).Seconds()
		if over > burst/4+2 {
			t.Errorf("walk %d: %v more than a limit of %v/s and a burst of %v, at %s:%s", seed, over, limit, burst, time.Now().Format(time.TimeOnly), told)
			return
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// The overview asks for the status every two seconds. With 100,000 rules, it copied all of them.
func TestTheStatusTakesNoMoreWithMoreRules(t *testing.T) {
	cost := func(rules int) uint64 {
		c := dynamicconfig.Config{Rules: make([]dynamicconfig.Rule, rules)}
		for i := range c.Rules {
			c.Rules[i] = dynamicconfig.Rule{Key: fmt.Sprint("k", i), Limit: 1}
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		limits := dynamicconfig.NewLive(s)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status := StatusOf(limits)
		runtime.ReadMemStats(&after)
		if status.Rules != rules {
			t.Fatal("the status has another number of rules")
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := cost(10), cost(10_000); many > few+100_000 {
		t.Errorf("the status takes %d bytes with 10 rules, and %d with 10,000", few, many)
	}
}

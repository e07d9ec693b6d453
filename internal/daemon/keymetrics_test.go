// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// With thousands of keys in use, only the top has metrics, and a key that leaves the top is gone. A
// private key shows as a hash.
func TestOnlyTheTopKeysHaveMetrics(t *testing.T) {
	c := config(t)
	c.Limits = write(t, "limits.yaml", `
defaults: {update_interval: 100ms, algorithm: even}
limits:
  - {key: "user:*", limit: 1e6/s, private: true}
  - {key: "k:*", limit: 1e6/s}
  - {key: "off:*", limit: 0/s}
`)
	c.Admin, c.TopKeys = "127.0.0.1:0", 1
	d := start(t, c)
	operators := httpTo(t, "tcp", d.Admin())
	use := func(key string, n int) {
		for range n {
			d.Node().For(key).Allow()
		}
	}
	// meanwhile calls round again and again until end: each second that is measured must have some use in
	// it, however long a scrape takes.
	meanwhile := func(round func(i int)) (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var traffic sync.WaitGroup
		traffic.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				round(i)
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
		return func() { cancel(); traffic.Wait() }
	}
	var found map[string]float64
	// keysOf are the keys of the metrics, and what is the sum of one of them.
	keysOf := func() []string {
		found = scrape(t, operators)
		keys := map[string]bool{}
		for name := range found {
			if strings.HasPrefix(name, "headgate_key_") {
				_, key, _ := strings.Cut(name, `key="`)
				keys[key[:strings.Index(key, `"`)]] = true
			}
		}
		return slices.Sorted(maps.Keys(keys))
	}
	end := meanwhile(func(i int) {
		for j := range 10 {
			use(fmt.Sprint("k:", (10*i+j)%3000), 1)
		}
		use("k:7", 20)
		use("off:x", 1)
	})
	eventually(t, "the most used and the most rejected key have metrics", func() bool {
		return slices.Equal(keysOf(), []string{"k:7", "off:x"}) && found[`headgate_key_allowed_total{key="k:7",rule="k:*"}`] > 5000 &&
			found[`headgate_key_utilization{key="k:7",rule="k:*"}`] > 0 && found[`headgate_rule_utilization{rule="k:*"}`] > 0 &&
			found[`headgate_key_rejected_total{key="off:x",rule="off:*"}`] > 0
	})
	if got := found[`headgate_key_limit{key="k:7",rule="k:*"}`]; got != 1e6 {
		t.Errorf("the limit of a key is %v", got)
	}
	if used := found[`headgate_key_utilization{key="k:7",rule="k:*"}`]; used > 100 {
		t.Errorf("%v of the limit is used", used)
	}
	for rule, limit := range map[string]float64{"user:*": 1e6, "k:*": 1e6, "off:*": 0} {
		if got, ok := found[`headgate_rule_limit{rule="`+rule+`"}`]; !ok || got != limit {
			t.Errorf("the limit of %s is %v", rule, got)
		}
	}
	end()
	end = meanwhile(func(int) {
		use("user:ann", 100)
		use("off:x", 1)
	})
	defer end()
	eventually(t, "another key takes the place of the most used one", func() bool {
		keys := keysOf()
		return len(keys) == 2 && keys[0] == "off:x" && strings.HasPrefix(keys[1], "user:") && keys[1] != "user:ann"
	})
	if after, still := found[`headgate_key_allowed_total{key="k:7",rule="k:*"}`]; still {
		t.Errorf("k:7 is still there with %v", after)
	}
}

func TestTopKeysHaveBounds(t *testing.T) {
	for _, n := range []int{-1, MaxTopKeys + 1} {
		c := config(t)
		c.TopKeys = n
		if d, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), "0 to 1000 are possible") {
			t.Errorf("%d: %v", n, err)
			if err == nil {
				_ = d.Stop(context.Background())
			}
		}
	}
}

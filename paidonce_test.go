// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// A key's owner has one pool for exact and auto. A host that moves from one to the other does not
// have the owner pay again for what it has paid for.
func TestAMoveBetweenExactAndAutoIsPaidForOnce(t *testing.T) {
	// A host that leaves auto has the owner charge what it has not reported. The owner also keeps
	// what it lent for that.
	const burst, before, unreported = 20, 15, 2
	for _, path := range []string{"exact", "auto", "exact auto", "auto exact", "exact auto exact", "auto exact auto"} {
		for _, hosts := range []int{1, 3} {
			for _, settles := range []time.Duration{time.Millisecond, time.Second, 5 * time.Second} {
				t.Run(fmt.Sprintf("%s, %d hosts, after %v", strings.ReplaceAll(path, " ", " to "), hosts, settles), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						rule := func(algorithm string) *dynamicconfig.Snapshot {
							s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "limits:\n  - {key: k, limit: 1/h, burst: %d, algorithm: %s}\n", burst, algorithm))
							if err != nil {
								t.Fatal(err)
							}
							return s
						}
						names := strings.Fields(path)
						c := autoClusterOf(t, hosts, 1./3600, rule(names[0]))
						defer c.close()
						key := c.hosts[0].group.For("k")
						for range before {
							if !key.Allow() {
								t.Fatal("refused")
							}
							time.Sleep(50 * time.Millisecond)
						}
						for _, name := range names[1:] {
							c.configure(t, rule(name))
							time.Sleep(settles)
						}
						more := 0
						for range 60 { // until no host has a loan of before
							if key.Allow() {
								more++
							}
							time.Sleep(time.Second)
						}
						least := burst - before
						if strings.Contains(path, "auto exact") {
							least -= unreported
						}
						if more < least || more > burst-before {
							t.Errorf("%d more are allowed, want %d to %d", more, least, burst-before)
						}
					})
				})
			}
		}
	}
}

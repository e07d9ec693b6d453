// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/internal/markers"
)

var update = flag.Bool("update", false, "write the table of docs/conformance.md anew")

// What the rules of all keys say. A key's name begins with what its rule differs in.
const (
	limit   = 10.0
	burst   = 20.0
	maxWait = 2 * time.Second
)

// rules are a limits file, for an algorithm.
const rules = `
defaults: {update_interval: 1s, lease: 10s, ask_timeout: 1s, algorithm: %s}
limits:
  - {key: "waits:*", limit: 10/s, burst: 20, max_wait: 2s}
  - {key: "*", limit: 10/s, burst: 20}
`

// algorithm is how a key is shared.
type algorithm struct {
	name string

	// asks: what is left at a host may be nothing, because it asks the owner for more.
	asks bool

	// part: a host holds a part of what is left, and gets more when that is used.
	part bool

	// over is what the algorithm says that may pass beyond what one bucket lets pass.
	over float64

	// leases: a host holds what it wants, which the test states.
	leases bool

	// own: a charge is owed by the host's own bucket, as deep as that may be in debt.
	own bool

	// chance: events are rejected by chance, so what is left is not what passes.
	chance bool

	// each: every host has the whole limit.
	each bool
}

var algorithms = []algorithm{
	{name: "auto", asks: true},
	{name: "elastic", part: true, over: 0.5 * burst},
	{name: "exact"},
	{name: "request-weighted", own: true},
	{name: "request-weighted-even-floor", own: true},
	{name: "even", own: true},
	{name: "gossip"},
	{name: "drop-ratio", chance: true},
	{name: "proportional-share", own: true, leases: true},
	{name: "fair-share", own: true, leases: true},
	{name: "static", each: true, leases: true},
	{name: "none", each: true, leases: true},
}

// laws are what holds under each algorithm, by each way in. They return what is wrong,
// and false if the way has nothing that the law is about.
var laws = []struct {
	name  string
	holds func(c *clause) (applies bool)
}{
	{"limit", limited},
	{"charge", charged},
	{"closed", closed},
	{"wait", waits},
	{"refund", refunded},
	{"settle", settled},
	{"left", truthful},
}

// clause is one law under one algorithm by one way.
type clause struct {
	*testing.T
	node      *headgate.Node
	algorithm algorithm
	way       way
	key       string
}

// TestEveryWayInMeansTheSame runs each law on a node that is alone, so that its bucket is
// all of the limit. The table in docs/conformance.md says which laws apply where.
func TestEveryWayInMeansTheSame(t *testing.T) {
	table := make(map[string]map[string][]string) // by algorithm and way
	var names []string
	for _, a := range algorithms {
		table[a.name] = make(map[string][]string)
		synctest.Test(t, func(t *testing.T) {
			nodes, _ := bubble.Start(t, 1, fmt.Sprintf(rules, a.name))
			names = names[:0]
			for i, w := range ways(t, nodes[0]) {
				names = append(names, w.name)
				for _, law := range laws {
					key := fmt.Sprintf("%s:%s-%d", map[bool]string{true: "waits", false: "k"}[law.name == "wait"], law.name, i)
					c := &clause{t, nodes[0], a, w, key}
					warm(c)
					if law.holds(c) {
						table[a.name][w.name] = append(table[a.name][w.name], law.name)
					}
				}
			}
		})
	}
	compare(t, table, names)
}

// warm has the key's owner know the host, and the bucket full.
func warm(c *clause) {
	if c.algorithm.leases {
		c.node.For(c.key).SetDemand(10 * limit)
	}
	c.way.take(c.key, 1, 0)
	time.Sleep(5 * time.Second)
	c.way.take(c.key, 1, 0)
	time.Sleep(5 * time.Second)
}

// errorf says what is wrong, and where.
func (c *clause) errorf(format string, args ...any) {
	c.Helper()
	c.Errorf("%s, %s, %s: %s", c.algorithm.name, c.way.name, c.key, fmt.Sprintf(format, args...))
}

// hammer takes single tokens every 10 ms for a time, and returns how many there were.
func (c *clause) hammer(span time.Duration) (got float64) {
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c.way.take(c.key, 1, 0).ok {
			got++
		}
	}
	return got
}

// held is how many tokens the host has, at first.
func (c *clause) held() float64 {
	if c.algorithm.part {
		return c.node.For(c.key).Tokens()
	}
	return burst
}

// slack is how much more than a bucket may pass: what rounding does, and under
// drop-ratio, chance until the owner has heard of the demand.
func (c *clause) slack() float64 {
	if c.algorithm.chance {
		return 200 // of two intervals
	}
	return 1
}

// limited: no more passes than the limit and the burst.
func limited(c *clause) bool {
	const span = 10 * time.Second
	got, most := c.hammer(span), limit*span.Seconds()+burst
	if got > most+c.slack()+c.algorithm.over || got < 0.9*limit*span.Seconds() {
		c.errorf("%v events passed, at most %v may", got, most)
	}
	return true
}

// charged: what is charged is missing from what passes afterwards.
func charged(c *clause) bool {
	if c.way.charge == nil || c.algorithm.chance {
		return false
	}
	const n, span = 45, 10 * time.Second // less than the deepest debt
	before := c.held()
	left := c.way.charge(c.key, n)
	if !c.algorithm.asks && math.Abs(left-(before-n)) > 1 {
		c.errorf("after a charge of %v, %v are left, and not %v", n, left, before-n)
	}
	got, most := c.hammer(span), limit*span.Seconds()+burst-n
	if got > most+1+c.algorithm.over || got < most-0.2*limit*span.Seconds() {
		c.errorf("after a charge of %v, %v events passed, and not %v", n, got, most)
	}
	return true
}

// closed: no charge closes a key for longer than its deepest debt takes to be paid.
func closed(c *clause) bool {
	if c.way.charge == nil {
		return false
	}
	for range 3 {
		c.way.charge(c.key, math.MaxInt)
	}
	// The burst, what fills in within the wait, and max_cost, which is the burst.
	longest := time.Duration((burst+burst)/limit*float64(time.Second)) + 2*time.Second
	time.Sleep(longest)
	if c.hammer(time.Second) == 0 {
		c.errorf("closed for more than %v", longest)
	}
	return true
}

// waits: the smallest of what the rule, the caller and the edge say bounds a wait.
func waits(c *clause) bool {
	if c.algorithm.chance {
		return false
	}
	c.hammer(3 * time.Second) // the owner hears of the demand
	if got := longestWait(c, c.key, forever); got > maxWait+10*time.Millisecond || got < maxWait/2 {
		c.errorf("waits for up to %v, and the rule says %v", got, maxWait)
	}
	time.Sleep(5 * time.Second)
	c.hammer(3 * time.Second)
	if got := longestWait(c, c.key, 500*time.Millisecond); got > 510*time.Millisecond || got < 250*time.Millisecond {
		c.errorf("waits for up to %v, and the caller said 500ms", got)
	}
	if c.way.finite {
		c := *c
		c.key = strings.Replace(c.key, "waits:", "k:", 1)
		c.hammer(8 * time.Second)
		if got := longestWait(&c, c.key, forever); got > 1010*time.Millisecond || got < 500*time.Millisecond {
			c.errorf("waits for up to %v without max_wait, and not 1s", got)
		}
	}
	return true
}

// longestWait is the longest that one of many who come at once has to wait.
func longestWait(c *clause, key string, longest time.Duration) (most time.Duration) {
	const many = 100
	answers := make(chan answer, many)
	for range many {
		go func() { answers <- c.way.take(key, 1, longest) }()
	}
	for range many {
		if a := <-answers; a.ok {
			most = max(most, a.wait)
		}
	}
	return most
}

// refunded: what is released is there again, once.
func refunded(c *clause) bool {
	if c.way.hold == nil || c.algorithm.chance {
		return false
	}
	all := c.held()
	held := c.way.hold(c.key, int(all/2))
	if !held.ok {
		c.errorf("half of %v cannot be held", all)
		return true
	}
	for range 3 {
		held.release()
	}
	c.passes("after a release", all)
	return true
}

// settled: what an event did cost is what is missing afterwards, once.
func settled(c *clause) bool {
	if c.way.hold == nil || c.algorithm.chance {
		return false
	}
	all := c.held()
	held := c.way.hold(c.key, 5)
	if held.settle == nil {
		return false
	}
	for range 3 {
		held.settle(2)
	}
	c.passes("after a settlement for less", all-2)
	time.Sleep(10 * time.Second)
	all = c.held()
	held = c.way.hold(c.key, 5)
	for range 3 {
		held.settle(12)
	}
	c.passes("after a settlement for more", max(all-12, 0))
	return true
}

// truthful: as much passes as an answer says is left.
func truthful(c *clause) bool {
	if c.algorithm.chance {
		return false
	}
	all := c.held()
	a := c.way.take(c.key, 3, 0)
	if math.IsNaN(a.left) || c.algorithm.asks {
		return false
	}
	if !a.ok || a.left < all-3-1 || a.left > all-3 {
		c.errorf("after 3 of %v, it says that %v are left", all, a.left)
	}
	c.passes("as it said", all-3)
	if a := c.way.take(c.key, 8, 0); a.ok || a.left < 0 || a.left >= 8 {
		c.errorf("of an empty bucket it says %+v", a)
	}
	return true
}

// passes checks that n events pass at once, give or take one that time brings.
func (c *clause) passes(when string, n float64) {
	c.Helper()
	time.Sleep(100 * time.Millisecond) // a bucket elsewhere hears of it
	got := 0.0
	for range 100 {
		if !c.way.take(c.key, 1, 0).ok {
			break
		}
		got++
	}
	if got < n-1 || got > n+2+c.algorithm.over {
		c.errorf("%s, %v events passed, and not %v", when, got, n)
	}
}

// TestAChargeCountsAtAllHosts charges a key at one of three hosts, all of which are asked
// all the time.
func TestAChargeCountsAtAllHosts(t *testing.T) {
	const hosts, n, span = 3, 35, 10 * time.Second
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			nodes, _ := bubble.Start(t, hosts, fmt.Sprintf(rules, a.name))
			hammer := func(key string, span time.Duration) (got float64) {
				for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					for _, node := range nodes {
						if node.For(key).Allow() {
							got++
						}
					}
				}
				return got
			}
			hammer("k:charge", 10*time.Second)
			nodes[0].For("k:charge").Charge(n)
			got, most := hammer("k:charge", span), limit*span.Seconds()-n+5
			if a.own {
				most += n - (burst/hosts + burst)
			}
			if limits := !a.chance && !a.each; limits && (got > most || got < most-15) {
				t.Errorf("%s: %v events passed after a charge of %v, and not %v", a.name, got, n, most)
			}
			nodes[0].For("k:closed").Charge(math.MaxInt)
			hammer("k:closed", 10*time.Second)
			if got := hammer("k:closed", 3*time.Second); got < limit*3/2 && !a.chance || got == 0 {
				t.Errorf("%s: 10 s after a charge of all there is, %v events passed in 3 s", a.name, got)
			}
		})
	}
}

const page = "../../docs/conformance.md"

// compare compares the table with the page, or writes it there.
func compare(t *testing.T, table map[string]map[string][]string, names []string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "| algorithm | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, a := range algorithms {
		fmt.Fprintf(&b, "| `%s` |", a.name)
		for _, w := range names {
			fmt.Fprintf(&b, " %s |", strings.Join(table[a.name][w], ", "))
		}
		b.WriteByte('\n')
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	next, err := markers.Replace(string(text), "conformance", "table", b.String())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, []byte(next), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if next != string(text) {
		t.Errorf("docs/conformance.md has another table: look at the difference after go test ./internal/conformance -update")
	}
}

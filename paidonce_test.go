// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// A key's owner pays once for what its hosts use, however the rule moves: a host that moves between
// exact and auto has the owner not charged again for what it has paid for, and one that comes from
// another algorithm says once what it used before.
func TestAMoveToExactOrAutoIsPaidForOnce(t *testing.T) {
	const burst, before = 20, 15
	for _, path := range []string{
		"exact", "auto", "exact auto", "auto exact", "exact auto exact", "auto exact auto", "even auto", "even exact", "request-weighted auto", "even auto exact", "elastic auto", "elastic exact",
	} {
		for _, hosts := range []int{1, 3} {
			for _, settles := range []time.Duration{time.Millisecond, time.Second, 5 * time.Second} {
				t.Run(fmt.Sprintf("%s, %d hosts, after %v", strings.ReplaceAll(path, " ", " to "), hosts, settles), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						rule := func(algorithm string) *dynamicconfig.Snapshot { return ruledBy(t, algorithm, "1/h", burst) }
						names := strings.Fields(path)
						if names[0] == "elastic" { // a pool of a cluster that has just started begins half full
							time.Sleep(max(-aggregator.Now(), 0) + time.Hour)
						}
						c := autoClusterOf(t, hosts, 1./3600, rule(names[0]))
						defer c.close()
						key, allowed := c.hosts[0].group.For("k"), 0
						for range before {
							if key.Allow() {
								allowed++
							}
							time.Sleep(50 * time.Millisecond)
						}
						for _, name := range names[1:] {
							c.configure(t, rule(name))
							time.Sleep(settles)
						}
						for range 60 { // until no host has a loan of before
							if key.Allow() {
								allowed++
							}
							time.Sleep(time.Second)
						}
						if allowed != burst {
							t.Errorf("%d are allowed, want %d", allowed, burst)
						}
					})
				})
			}
		}
	}
}

// While a migration is disabled, the owner makes no second pool. The pool before goes on under the algorithm that answers
// next, and hosts do not charge it again.
func TestAMoveThroughABypassIsPaidForOnce(t *testing.T) {
	const burst, before = 20, 15
	for _, path := range []string{
		"exact exact>auto:disabled auto", "exact>auto:old exact>auto:disabled exact>auto:new", "exact>auto:new exact>auto:disabled exact",
		"auto>exact:new-shadow-old auto>exact:disabled auto>exact:old-shadow-new", "exact exact>elastic:disabled auto", "auto elastic>auto:disabled exact", "exact exact>elastic:disabled exact>elastic:old",
	} {
		for _, hosts := range []int{1, 3} {
			inBubble(t, func(t *testing.T) {
				time.Sleep(max(-aggregator.Now(), 0) + time.Hour) // else the owner may take the key for one of another owner
				rules := strings.Fields(path)
				c := autoClusterOf(t, hosts, 1./3600, ruledBy(t, rules[0], "1/h", burst))
				defer c.close()
				allowed := 0
				allowed += c.use(before, 1, 50*time.Millisecond)
				for _, rule := range rules[1:] {
					time.Sleep(5 * time.Second)
					c.configure(t, ruledBy(t, rule, "1/h", burst))
					if strings.HasSuffix(rule, "disabled") { // all events pass, and are reported
						c.use(30, 1, 500*time.Millisecond)
					}
				}
				allowed += c.use(60, 1, time.Second)
				if allowed != burst {
					t.Errorf("%s, %d hosts: %d are allowed, want %d", path, hosts, allowed, burst)
				}
			})
		}
	}
}

// The owner is not charged once more for what it has paid for under auto, when the rule moves to
// elastic, and back before an event.
func TestAMoveToElasticAndBackIsPaidForOnce(t *testing.T) {
	const burst, before = 20, 15
	for _, hosts := range []int{1, 3} {
		for _, stays := range []time.Duration{time.Millisecond, time.Second, 5 * time.Second} {
			inBubble(t, func(t *testing.T) {
				c := autoClusterOf(t, hosts, 1./3600, ruledBy(t, "auto", "1/h", burst))
				defer c.close()
				allowed := 0
				allowed += c.use(before, hosts, 50*time.Millisecond)
				time.Sleep(10 * time.Second) // no host has a loan then
				c.configure(t, ruledBy(t, "elastic", "1/h", burst))
				time.Sleep(stays)
				c.configure(t, ruledBy(t, "auto", "1/h", burst))
				allowed += c.use(60, hosts, time.Second)
				if allowed != burst {
					t.Errorf("%d hosts, %v under elastic: %d are allowed, want %d", hosts, stays, allowed, burst)
				}
			})
		}
	}
}

// A host that moves to exact gives back what the owner granted it, and says what it used of
// that: no event is refused of a key that is asked for less than its limit.
func TestAMoveToExactGivesBackWhatWasGranted(t *testing.T) {
	for _, from := range []string{"auto", "elastic"} {
		for _, hosts := range []int{1, 3} {
			inBubble(t, func(t *testing.T) {
				c := autoClusterOf(t, hosts, 500, ruledBy(t, from, "500/s", 500))
				defer c.close()
				use := func(d time.Duration) (refused int) {
					for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
						if !c.hosts[i%hosts].group.For("k").Allow() {
							refused++
						}
						time.Sleep(2500 * time.Microsecond)
					}
					return refused
				}
				use(20 * time.Second)
				c.configure(t, ruledBy(t, "exact", "500/s", 500))
				if refused := use(10 * time.Second); refused > 0 {
					t.Errorf("%s, %d hosts: %d events are refused, of less than 400/s under 500/s", from, hosts, refused)
				}
			})
		}
	}
}

// Hosts that go from elastic back to auto give back what they were lent, before the owner takes them
// for gone: then it would be lost for as long as the limit takes to fill it in. Elastic may let an
// event of each host pass beyond the burst.
func TestAMoveFromElasticGivesBackWhatWasLent(t *testing.T) {
	const burst = 20
	for _, hosts := range []int{1, 3} {
		for _, before := range []int{3, 15} {
			inBubble(t, func(t *testing.T) {
				time.Sleep(max(-aggregator.Now(), 0) + time.Hour) // else the owner may take the key for one of another owner
				c := autoClusterOf(t, hosts, 1./3600, ruledBy(t, "auto", "1/h", burst))
				defer c.close()
				allowed := 0
				time.Sleep(time.Minute)
				allowed += c.use(before, hosts, 50*time.Millisecond)
				time.Sleep(6 * time.Second)
				c.configure(t, ruledBy(t, "elastic", "1/h", burst))
				time.Sleep(2 * time.Second) // elastic has lent by now
				c.configure(t, ruledBy(t, "auto", "1/h", burst))
				time.Sleep(10 * time.Second)
				allowed += c.use(90, hosts, time.Second)
				if allowed < burst || allowed > burst+hosts {
					t.Errorf("%d hosts, %d before: %d are allowed, want %d", hosts, before, allowed, burst)
				}
			})
		}
	}
}

// ruledBy is a config with one rule, by an algorithm or by a migration such as "exact>auto:old".
func ruledBy(t *testing.T, algorithm, limit string, burst int) *dynamicconfig.Snapshot {
	t.Helper()
	how := "algorithm: " + algorithm
	if from, migration, ok := strings.Cut(algorithm, ">"); ok {
		to, mode, _ := strings.Cut(migration, ":")
		how = fmt.Sprintf("migrate: {from: %s, to: %s, mode: %s}", from, to, mode)
	}
	s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "limits:\n  - {key: k, limit: %s, burst: %d, %s}\n", limit, burst, how))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Hosts that use all of a limit go from elastic to auto and back, plainly or through a migration. The report after a
// change says what was used of the grant before, so the owner takes nothing for unused that is not.
func TestAMoveBetweenElasticAndAutoGivesNoBurstAndTakesNone(t *testing.T) {
	plain := []string{"algorithm: elastic", "algorithm: auto", "algorithm: elastic", "algorithm: auto"}
	var migrates []string
	for _, mode := range []string{"old", "old-shadow-new", "new-shadow-old", "new", "new-shadow-old", "old-shadow-new", "old"} {
		migrates = append(migrates, "migrate: {from: elastic, to: auto, mode: "+mode+"}")
	}
	for name, rules := range map[string][]string{"plain": plain, "migration": migrates} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				snapshot := func(how string) *dynamicconfig.Snapshot {
					s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "limits:\n  - {key: k, limit: 300/s, burst: %d, fallback: closed, %s}\n", autoBurst, how))
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				c := autoClusterOf(t, 6, 300, snapshot(rules[0]))
				defer c.close()
				c.ask(100, 10*time.Second)
				for _, how := range rules[1:] {
					before := c.balance()
					c.worst = 0
					c.configure(t, snapshot(how))
					c.ask(100, 5*time.Second)
					if got := c.balance() - before; got < -autoBurst/3 || -c.worst > autoBurst/3 {
						t.Errorf("%s: %.0f tokens more than the limit allows in 5 s, and at worst %.0f more than it and a burst", how, got, -c.worst)
					}
				}
			})
		})
	}
}

// Hosts that use a third of a limit go from even to auto and back. What the owner has left is theirs: each has its even
// part of a burst at once.
func TestAMoveFromAutoTakesNoTokensThatAreLeft(t *testing.T) {
	const hosts, burst = 4, 60
	inBubble(t, func(t *testing.T) {
		time.Sleep(max(-aggregator.Now(), 0) + time.Hour) // else the owner may take the key for one of another owner
		c := autoClusterOf(t, hosts, 100, ruledBy(t, "even", "100/s", burst))
		defer c.close()
		for _, algorithm := range []string{"auto", "even", "auto", "even"} {
			c.configure(t, ruledBy(t, algorithm, "100/s", burst))
			for i := range 120 { // 30 events/s
				time.Sleep(time.Second / 30)
				if !c.hosts[i%hosts].group.For("k").Allow() {
					t.Errorf("%s: an event is refused", algorithm)
				}
			}
			if algorithm == "auto" {
				time.Sleep(200 * time.Millisecond)
				c.configure(t, ruledBy(t, "even", "100/s", burst))
				for i, h := range c.hosts {
					if d := h.group.For("k").Decide(t.Context(), burst/hosts-3, 0); !d.OK {
						t.Errorf("host %d has fewer than %d tokens after auto", i, burst/hosts-3)
					}
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// A measurement that begins again has a new pool. Hosts charge it with all that the key lacks, and nothing that an earlier measurement
// took, whose pool is gone.
func TestAMeasurementThatBeginsAgainMeasuresFromWhatIsLeft(t *testing.T) {
	const burst, before = 20, 10
	for _, path := range []string{"exact>auto:old-shadow-new exact exact>auto:old-shadow-new", "exact>auto:new-shadow-old auto exact>auto:new-shadow-old", "exact>auto:new-shadow-old even exact>auto:new-shadow-old", "exact>auto:new-shadow-old exact>auto:disabled exact>auto:new-shadow-old"} {
		inBubble(t, func(t *testing.T) {
			rules := strings.Fields(path)
			c := autoClusterOf(t, 1, 1./3600, ruledBy(t, rules[0], "1/h", burst))
			defer c.close()
			use := func(n int) {
				for range n {
					c.hosts[0].group.For("k").Allow()
					time.Sleep(time.Second)
				}
			}
			use(before)
			for _, rule := range rules[1:] {
				time.Sleep(5 * time.Second)
				c.configure(t, ruledBy(t, rule, "1/h", burst))
			}
			use(60)
			st, _ := c.hosts[0].group.Inspect("k")
			if d := st.Divergence; d.Both != burst-before || d.OnlyOld+d.OnlyNew != 0 {
				t.Errorf("%s: %+v, want %d of both", path, d, burst-before)
			}
		})
	}
}

// tokensOf is a Remote with one bucket, of the burst that its operations have.
type tokensOf struct {
	mu   sync.Mutex
	left float64
	at   time.Time // of left; zero before the first operation
}

func (b *tokensOf) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.at.IsZero() {
		b.left = min(b.left+float64(op.Rule.Limit)*now.Sub(b.at).Seconds(), op.Rule.Burst)
	}
	b.at = now
	switch {
	case op.Kind == stage.ReturnTokens:
		b.left += op.N
	case op.Kind == stage.TakeTokens && op.N > b.left:
		return stage.Outcome{Left: b.left}, nil
	case op.Kind == stage.ChargeTokens:
		b.left = max(b.left-op.N, min(b.left, -op.Rule.MostDebt()))
	default:
		b.left -= op.N
	}
	return stage.Outcome{OK: true, Left: b.left}, nil
}

// A move from one remote bucket to another has each host charge what it has used itself, also where few of the hosts use the key.
// Each charged its even part of what all had used, and 28 events of a burst of 20 passed where one host of six had the key.
func TestAMoveBetweenRemoteBucketsIsPaidForByTheHostsThatUsedTheKey(t *testing.T) {
	const burst, before = 20, 10
	for _, path := range []string{
		"redis exact", "redis auto", "exact redis", "auto redis", "redis exact redis", "redis even exact", "exact even redis", "even redis even exact",
		"redis request-weighted exact", "auto even redis", "redis redis>exact:old redis>exact:new exact", "redis redis>auto:old-shadow-new auto", "exact exact>redis:old-shadow-new redis",
	} {
		for _, users := range []int{1, 2, 6} {
			inBubble(t, func(t *testing.T) {
				const hosts = 6
				rules, redis := strings.Fields(path), &tokensOf{left: burst}
				c := autoClusterOf(t, hosts, 1./3600, ruledBy(t, rules[0], "1/h", burst), limiter.WithRemote("redis", redis))
				defer c.close()
				allowed := 0
				use := func(n int, every time.Duration) {
					for i := range n {
						if c.hosts[min(i%users, i%4)].group.For("k").Allow() { // if two hosts do, one has more than the other
							allowed++
						}
						time.Sleep(every)
					}
				}
				use(before, 50*time.Millisecond)
				for _, rule := range rules[1:] {
					time.Sleep(5 * time.Second)
					c.configure(t, ruledBy(t, rule, "1/h", burst))
				}
				use(60, time.Second)
				if allowed < burst-users || allowed > burst { // each host rounds its charge up
					t.Errorf("%s, %d of %d hosts: %d are allowed, want %d", path, users, hosts, allowed, burst)
				}
			})
		}
	}
}

// Rules move a key that is hardly used through all algorithms, in any order. It has the tokens afterwards that it had before.
func TestMovesOfAQuietKeyLoseNoTokens(t *testing.T) {
	const hosts, burst, before = 3, 60, 15
	algorithms := []string{"auto", "exact", "redis", "even"}
	paths := [][]string{{"auto"}, {"exact"}, {"redis"}, {"even"}}
	moves := 3
	if testing.Short() {
		moves = 2
	}
	for range moves {
		var longer [][]string
		for _, path := range paths {
			for _, to := range algorithms {
				if to != path[len(path)-1] {
					longer = append(longer, append(slices.Clip(path), to))
				}
			}
		}
		paths = longer
	}
	for _, path := range []string{ // a pool that was measured goes on, and was charged
		"auto>even:new-shadow-old even auto", "auto>redis:new-shadow-old redis auto", "auto>even:new-shadow-old even redis auto",
	} {
		paths = append(paths, strings.Fields(path))
	}
	for _, path := range paths {
		for _, users := range []int{1, hosts} {
			for _, each := range []int{0, 3} { // events under each rule
				inBubble(t, func(t *testing.T) {
					time.Sleep(max(-aggregator.Now(), 0) + time.Hour) // else the owner may take the key for one of another owner
					c := autoClusterOf(t, hosts, 1./3600, ruledBy(t, path[0], "1/h", burst), limiter.WithRemote("redis", &tokensOf{left: burst}))
					defer c.close()
					allowed := 0
					allowed += c.use(before, users, 50*time.Millisecond)
					time.Sleep(5 * time.Second) // no host has a loan then
					for _, algorithm := range path[1:] {
						c.configure(t, ruledBy(t, algorithm, "1/h", burst))
						allowed += c.use(each, users, time.Millisecond)
						time.Sleep(5 * time.Second)
					}
					allowed += c.use(3*burst, hosts, time.Second)
					// Each host rounds what it charges up. A host that decides for itself does not know what others have taken since
					// its last answer.
					if most := burst + burst/hosts; allowed < burst-hosts-1 || allowed > most {
						t.Errorf("%s, %d of %d hosts, %d events each: %d are allowed, want %d to %d", strings.Join(path, " to "), users, hosts, each, allowed, burst-hosts-1, most)
					}
				})
			}
		}
	}
}

// Hosts that have just started do not know what they used before. Each takes its even part of what is lacking for that.
func TestAMoveAfterARestartOfAllHostsIsPaidFor(t *testing.T) {
	for _, to := range []string{"exact", "auto"} {
		inBubble(t, func(t *testing.T) {
			const hosts, burst, left = 6, 40, 10 // what the hosts used before is missing
			c := autoClusterOf(t, hosts, 1./3600, ruledBy(t, "redis", "1/h", burst), limiter.WithRemote("redis", &tokensOf{left: left}))
			defer c.close()
			allowed := 0
			allowed += c.use(hosts, hosts, time.Second)
			c.configure(t, ruledBy(t, to, "1/h", burst))
			allowed += c.use(60, hosts, time.Second)
			if allowed < left-hosts || allowed > left {
				t.Errorf("to %s: %d are allowed, want %d", to, allowed, left)
			}
		})
	}
}

// A charge makes a debt, on a host that has reported lately or not. The key is open again once the debt has filled in, and not later.
func TestAChargeIsPaidBackOnce(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "elastic"} {
		for _, hosts := range []int{1, 3} {
			for _, quiet := range []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 7 * time.Second} {
				inBubble(t, func(t *testing.T) {
					time.Sleep(max(-aggregator.Now(), 0) + time.Hour)
					const burst, charge, seconds = 12, 18, 26 // at a token per second
					limits, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil,
						"defaults: {update_interval: 500ms}\nlimits:\n  - {key: k, limit: 60/m, burst: %d, algorithm: %s, idle_after: 1h}\n", burst, algorithm))
					if err != nil {
						t.Fatal(err)
					}
					c := autoClusterOf(t, hosts, 1, limits)
					defer c.close()
					c.use(1, 1, quiet)
					c.hosts[0].group.For("k").Charge(charge)
					time.Sleep(time.Second) // a report says so, before the host asks
					allowed := c.use(5*(seconds-1), 1, time.Second/5)
					if least, most := burst+seconds-charge-4, burst+seconds-charge+1; allowed < least || allowed > most {
						t.Errorf("%s, %d hosts, %v after an event: %d are allowed, want %d to %d", algorithm, hosts, quiet, allowed, least, most)
					}
				})
			}
		}
	}
}

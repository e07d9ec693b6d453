// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

// away is a remote bucket that has as many tokens as the test says.
type away struct {
	fails bool
	left  float64
}

func (a *away) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	if a.fails {
		return stage.Outcome{}, errors.New("away")
	}
	return stage.Outcome{OK: op.Kind != stage.TakeTokens || a.left >= op.N, Left: a.left}, nil
}

func pick[T any](rt *rapid.T, name string, all ...T) T {
	return all[rapid.IntRange(0, len(all)-1).Draw(rt, name)]
}

// drawLimits are those of one rule that the host itself decides by, or that it asks elsewhere for.
func drawLimits(rt *rapid.T) *dynamicconfig.Snapshot {
	fallback := pick(rt, "fallback", "even", "open", "closed", "safe, safe_capacity: 1/s")
	limit := pick(rt, "limit", "5/s, burst: 5", "1/s, burst: 1", "1/h, burst: 3", "0/s", "1000000/s, burst: 10")
	names := []string{"even", "auto", "elastic", "request-weighted", "exact", "fair-share", "gossip"}
	to := pick(rt, "to", "static", "redis", "proportional-share")
	if rapid.Bool().Draw(rt, "slots") {
		limit, names, to = "3 in-flight", []string{"even", "fair-share"}, "static"
		if fallback == "safe, safe_capacity: 1/s" {
			fallback = "safe, safe_capacity: 1 in-flight"
		}
	}
	by := pick(rt, "algorithm", names...)
	if rapid.Bool().Draw(rt, "migrates") {
		by = fmt.Sprintf("migrate: {from: %s, to: %s, mode: %s}", by, to, pick(rt, "mode", "old", "old-shadow-new", "new-shadow-old", "new", "disabled"))
	} else {
		by = "algorithm: " + by
	}
	more := pick(rt, "more", "", "", "max_debt: 2s,", "max_wait: 3s,", "enforce: 0%,", "max_keys: 1,", "shared: true,")
	s, err := dynamicconfig.Parse("limits", fmt.Appendf(nil, "limits:\n  - {key: \"k*\", limit: %s, fallback: %s, %s %s}\n", limit, fallback, more, by))
	if err != nil {
		rt.Skip(err)
	}
	return s
}

// The next event fares as Look says. This does not hold where a remote bucket decides.
func TestALookSaysWhatTheNextEventGets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			time.Sleep(stage.Now().Sub(0).Abs())
			var a away
			limits, hosts := drawLimits(rt), 1
			g := limiter.NewGroup(limits, hosts, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1), driver.WithBackground(func(f func()) { f() }),
				limiter.WithRemote("exact", &a), limiter.WithRemote("auto", &a), limiter.WithRemote("redis", &a), limiter.WithRemote("gossip", &a))
			d := driver.Of(g)
			var held []func()
			look := func(rt *rapid.T) {
				key := pick(rt, "key", "k1", "k2")
				k := explain.Look(g, limits, hosts, key)
				release, ok := g.For(key).TryAcquire(1)
				held = append(held, release)
				elsewhere := k.Asks || k.Algorithm == limiter.Auto
				if ok && k.Refuses && k.Algorithm == limiter.Auto && !k.Fallback { // without a grant, the owner may answer again
					rt.Fatalf("under auto: allowed, and Look says %q of %s", k.Because, limits.Text())
				}
				if ok == k.Refuses && !elsewhere && (k.InUse || k.Refuses) { // a key that is not in use may have begun in debt
					rt.Fatalf("allowed: %t, and Look says %q of %s", ok, k.Because, limits.Text())
				}
			}
			rt.Repeat(map[string]func(*rapid.T){
				"look": look, "look again": look,
				"take": func(rt *rapid.T) {
					l, n := g.For(pick(rt, "key", "k1", "k2")), rapid.IntRange(0, 6).Draw(rt, "n")
					switch pick(rt, "how", "allow", "reserve", "charge", "acquire") {
					case "allow":
						l.AllowN(time.Now(), n)
					case "reserve":
						l.ReserveN(time.Now(), n)
					case "charge":
						l.Charge(n)
					default:
						release, _ := l.TryAcquire(n)
						held = append(held, release)
					}
				},
				"release": func(*rapid.T) {
					for _, release := range held {
						release()
					}
					held = nil
				},
				"time": func(rt *rapid.T) {
					time.Sleep(pick(rt, "how long", time.Millisecond, 300*time.Millisecond, 2*time.Second, 50*time.Second))
				},
				"report": func(rt *rapid.T) {
					for _, b := range d.Report(stage.Now()) {
						if rapid.Bool().Draw(rt, "is lost") {
							continue
						}
						grants := &usage.Grants{}
						for range b.Usage.Len() {
							grants.Weight = append(grants.Weight, pick(rt, "weight", 0.5, 0, 1))
							grants.Burst, grants.Used, grants.Lease = append(grants.Burst, 3), append(grants.Used, 1), append(grants.Lease, 10*time.Second)
							if b.Usage.Algorithm == limiter.Auto || b.Usage.Algorithm == "elastic" {
								grants.Tokens = append(grants.Tokens, pick(rt, "tokens", 3, 0, 0.5))
							}
						}
						if err := d.Apply(stage.Now(), b, nil, grants); err != nil {
							rt.Fatal(err)
						}
					}
				},
				"configure": func(rt *rapid.T) {
					limits = drawLimits(rt)
					d.Configure(stage.Now(), limits)
				},
				"hosts": func(rt *rapid.T) {
					hosts = pick(rt, "hosts", 1, 3)
					d.SetHosts(stage.Now(), hosts)
				},
				"remote": func(rt *rapid.T) {
					a = away{rapid.Bool().Draw(rt, "fails"), pick(rt, "left", 0.0, 3, -2)}
				},
			})
		})
	})
}

// Under auto, a limit of 0 is none that the key's owner could give a part of.
func TestALimitOfZeroIsSaidUnderAuto(t *testing.T) {
	for enforce, refuses := range map[string]bool{"100%": true, "0%": false} {
		s, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: k, limit: 0/s, enforce: `+enforce+`}]`))
		if err != nil {
			t.Fatal(err)
		}
		g := limiter.NewGroup(s, 2, limiter.WithRemote("auto", &away{}))
		if ok := g.For("k").Allow(); ok == refuses {
			t.Fatalf("enforce: %s: allowed: %t", enforce, ok)
		}
		if k := explain.Look(g, s, 2, "k"); k.Refuses != refuses || !strings.HasPrefix(k.Because, "the limit is 0: nothing is allowed") {
			t.Errorf("enforce: %s: %+v", enforce, k)
		}
	}
}

// While a bypass holds, no event asks the key's owner, and none is shown as if it did.
func TestABypassedKeyAsksNobody(t *testing.T) {
	for _, override := range []string{"bypass", "2x"} {
		s, err := dynamicconfig.Parse("limits", []byte(`{limits: [{key: k, limit: 10/s, algorithm: exact}], overrides: [{all: true, limit: `+override+`, until: 2999-01-01T00:00:00Z, author: ada, reason: a test}]}`))
		if err != nil {
			t.Fatal(err)
		}
		s = s.At(time.Now())
		g := limiter.NewGroup(s, 3, limiter.WithRemote("exact", &away{left: 9}))
		g.For("k").Allow()
		if k := explain.Look(g, s, 3, "k"); !k.InUse || k.Asks != (override == "2x") {
			t.Errorf("%s: %+v", override, k)
		}
	}
}

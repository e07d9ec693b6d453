// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// machine is an owner that random messages, rules and rings reach.
type machine struct {
	*rapid.T

	a        *Aggregator
	other    *Aggregator // the next owner, which knows the latest rules or those before
	log      *bytes.Buffer
	now      time.Duration
	sent     []*anypb.Any // takes, which may come again
	asked    *claims.Claims
	interval time.Duration
}

var (
	machineKeys  = rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	machineHosts = rapid.SampledFrom([]string{"h0", "h1", "h2", "h3", "h4", "h5"})
	machineNames = rapid.SampledFrom([]string{
		"elastic", "auto", "exact", "request-weighted", "request-weighted-even-floor", "drop-ratio", "fair-share", "proportional-share", "static", "none",
		"pool/fair-share", "average/fair-share", "favour", "average/favour", "claims/favour",
	})
	machineAmounts = rapid.SampledFrom([]float64{0, 1e-300, 1e-9, 0.5, 1, 3, 100, 1e6, 1e12, 1<<53 - 1, 1 << 53})
	machineParts   = rapid.SampledFrom([]float64{0, 1e-300, 1e-9, 0.1, 0.5, 1})
)

// favour gives all to one host.
func favour(capacity float64, _ []algorithm.Demand, parts []float64) { parts[0] = capacity }

// rules draws new rules.
func (m *machine) rules() {
	var rules []dynamicconfig.Rule
	for _, key := range []string{"a", "b", "[cd]", "*"} {
		if rapid.IntRange(0, 5).Draw(m.T, "no rule") == 0 {
			continue
		}
		r := dynamicconfig.Rule{
			Key: key, Limit: rapid.SampledFrom([]rate.Limit{0, 1e-9, 1e-3, 1, 100, 1e12, 1e15}).Draw(m.T, "limit"),
			MaxKeys: rapid.IntRange(1, 3).Draw(m.T, "max_keys"), Lease: rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(m.T, "lease"),
		}
		if rapid.Bool().Draw(m.T, "migrates") {
			r.Migration = &dynamicconfig.Migration{
				From: machineNames.Draw(m.T, "from"), To: machineNames.Draw(m.T, "to"),
				Mode: rapid.SampledFrom([]dynamicconfig.Mode{dynamicconfig.ModeDisabled, dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeNew}).Draw(m.T, "mode"),
			}
		} else if r.Algorithm = machineNames.Draw(m.T, "algorithm"); rapid.IntRange(0, 3).Draw(m.T, "tuned") == 0 {
			r.Parameters = map[string]string{"overcommit": rapid.SampledFrom([]string{"0.5", "banana"}).Draw(m.T, "overcommit")}
		}
		if r.Limit > 0 && rapid.IntRange(0, 3).Draw(m.T, "burst is") == 0 {
			r.Burst = rapid.SampledFrom([]float64{1, 1000, 1 << 53}).Draw(m.T, "burst")
		}
		r.Parent = rapid.IntRange(0, 3).Draw(m.T, "parent") == 0
		r.InFlight = rapid.IntRange(0, 3).Draw(m.T, "in flight") == 0
		r.Fallback = rapid.SampledFrom([]dynamicconfig.Fallback{dynamicconfig.FallbackEven, dynamicconfig.FallbackOpen, dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe}).Draw(m.T, "fallback")
		if r.Fallback == dynamicconfig.FallbackSafe {
			r.SafeCapacity = rapid.SampledFrom([]rate.Limit{1e-3, 1, 1e9}).Draw(m.T, "safe")
		}
		r.Refresh = rapid.SampledFrom([]time.Duration{0, time.Millisecond * 100, time.Second}).Draw(m.T, "refresh")
		r.Recalculate = rapid.SampledFrom([]time.Duration{0, dynamicconfig.None, time.Second}).Draw(m.T, "recalculate")
		r.MaxCost = rapid.SampledFrom([]float64{0, 0, 1, 100}).Draw(m.T, "max cost")
		if rapid.IntRange(0, 4).Draw(m.T, "more") == 0 {
			r.OneBand, r.Overcommit = rapid.Bool().Draw(m.T, "one band"), 0.5
			r.Priorities = map[int64]string{1: machineNames.Draw(m.T, "priority 1")}
			r.Learning = dynamicconfig.None
		}
		if rapid.IntRange(0, 4).Draw(m.T, "borrows") == 0 {
			r.MaxDebt, r.MaxWait = time.Hour, rapid.SampledFrom([]time.Duration{0, dynamicconfig.None, time.Minute}).Draw(m.T, "max_wait")
		}
		if _, err := (dynamicconfig.Config{Rules: []dynamicconfig.Rule{r}}).Snapshot(); err == nil { // else two of the values do not go together
			rules = append(rules, r)
		}
	}
	m.interval = rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second}).Draw(m.T, "interval")
	p := dynamicconfig.Properties{
		UpdateInterval: m.interval, DecayAfter: 2 * m.interval, GCAfter: 5 * m.interval,
		MaxKeys: rapid.SampledFrom([]int{1, 3, 1000}).Draw(m.T, "max_owned_keys"), MaxHostsPerKey: rapid.SampledFrom([]int{1, 3, 1000}).Draw(m.T, "max_hosts_per_key"),
	}
	s, err := dynamicconfig.Config{Properties: p, Rules: rules}.Snapshot()
	if err != nil {
		return // two properties do not go together
	}
	if m.a == nil {
		registry := algorithm.Builtin()
		if err := registry.Register("favour", favour); err != nil {
			m.Fatal(err)
		}
		m.a, m.other = New(registry, s, WithLogger(slog.New(slog.NewTextHandler(m.log, nil)))), New(registry, s, WithLogger(slog.New(slog.NewTextHandler(m.log, nil))))
		return
	}
	if rapid.Bool().Draw(m.T, "both hear") {
		m.other.Core.Configure(m.now, s)
	}
	m.a.Core.Configure(m.now, s)
}

func (m *machine) report() {
	u := &usage.Report{Algorithm: machineNames.Draw(m.T, "named")}
	if rapid.IntRange(0, 3).Draw(m.T, "measures") == 0 {
		u.Algorithm = dynamicconfig.Measured(u.Algorithm)
	}
	n := rapid.SampledFrom([]int{1, 1, 2, 5, 70}).Draw(m.T, "rows")
	stated, costs := rapid.Bool().Draw(m.T, "states wants"), rapid.Bool().Draw(m.T, "states costs")
	for i := range n {
		key := machineKeys.Draw(m.T, "key")
		if i > 5 {
			key = fmt.Sprint(key, i)
		}
		u.Keys = append(u.Keys, key)
		u.Allowed = append(u.Allowed, int64(machineAmounts.Draw(m.T, "allowed")))
		u.Rejected = append(u.Rejected, int64(machineAmounts.Draw(m.T, "rejected")))
		u.Elapsed = append(u.Elapsed, rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, rpc.MaxElapsed}).Draw(m.T, "elapsed"))
		u.Weight = append(u.Weight, machineParts.Draw(m.T, "has"))
		if stated {
			u.Wants = append(u.Wants, rapid.SampledFrom([]float64{0, 1, 1e18, math.MaxFloat64}).Draw(m.T, "wants"))
		}
		if costs {
			u.Cost = append(u.Cost, rapid.SampledFrom([]float64{0, 1, 100, math.MaxFloat64}).Draw(m.T, "cost"))
		}
	}
	if rapid.Bool().Draw(m.T, "states slots") {
		for range u.Keys {
			u.Slots = append(u.Slots, rapid.SampledFrom([]int64{0, 1, 2, 100, rpc.MaxCount}).Draw(m.T, "slots"))
		}
	}
	var g usage.Grants
	if err := m.a.Step(m.now, machineHosts.Draw(m.T, "host"), u, &g); err != nil {
		m.Fatal(err)
	}
	if err := g.Check(u.Len()); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) claim() {
	c := new(claims.Claims)
	for range rapid.IntRange(1, 3).Draw(m.T, "claims") {
		one := claims.Claim{
			Key: machineKeys.Draw(m.T, "key"), Host: machineHosts.Draw(m.T, "host"), Has: machineAmounts.Draw(m.T, "has"),
			Keep: rapid.IntRange(0, 4).Draw(m.T, "keep") == 0, Release: rapid.IntRange(0, 6).Draw(m.T, "release") == 0, Headroom: rapid.Bool().Draw(m.T, "headroom"),
		}
		for range rapid.SampledFrom([]int{0, 1, 2, 17}).Draw(m.T, "bands") {
			one.Bands = append(one.Bands, claims.Band{
				Priority: rapid.SampledFrom([]int64{0, 1, 2, -1, math.MaxInt64, math.MinInt64}).Draw(m.T, "priority"),
				Clients:  rapid.SampledFrom([]int64{1, 2, rpc.MaxCount}).Draw(m.T, "clients"), Wants: machineAmounts.Draw(m.T, "wants"),
			})
		}
		c.Rows = append(c.Rows, one)
	}
	if err := m.a.Claim(m.now, c).Check(len(c.Rows)); err != nil {
		m.Fatalf("%+v: %v", c, err)
	}
}

func (m *machine) take() {
	t := &usage.Takes{Caller: rapid.Uint64Range(0, 2).Draw(m.T, "caller"), Batch: rapid.Uint64Range(1, 20).Draw(m.T, "batch")}
	for range rapid.IntRange(0, 3).Draw(m.T, "withdrawn") {
		t.Withdrawn = append(t.Withdrawn, rapid.Uint64Range(1, 20).Draw(m.T, "number"))
	}
	t.Settled = rapid.Uint64Range(0, t.Batch).Draw(m.T, "settled") * rapid.Uint64Range(0, 1).Draw(m.T, "settles")
	for range rapid.IntRange(0, 3).Draw(m.T, "rows") {
		t.Rows = append(t.Rows, usage.Take{
			Key: machineKeys.Draw(m.T, "key"), Auto: rapid.Bool().Draw(m.T, "auto"), Measured: rapid.IntRange(0, 2).Draw(m.T, "measured") == 0,
			Tokens:  machineAmounts.Draw(m.T, "tokens") * rapid.SampledFrom([]float64{1, 1, -1}).Draw(m.T, "sign"),
			Longest: rapid.SampledFrom([]time.Duration{-1, 0, time.Second, rpc.MaxWait}).Draw(m.T, "longest"), Spent: rapid.SampledFrom([]usage.Spent{0, 0, 1, 2}).Draw(m.T, "spent"),
			More: machineAmounts.Draw(m.T, "more"), Wants: machineAmounts.Draw(m.T, "wants"),
			Told: machineAmounts.Draw(m.T, "told") - machineAmounts.Draw(m.T, "less"), Ago: rapid.SampledFrom([]time.Duration{0, time.Second, rpc.MaxElapsed}).Draw(m.T, "ago"),
			By: rapid.Uint32Range(0, 2).Draw(m.T, "by"), Handed: rapid.IntRange(0, 5).Draw(m.T, "handed") == 0, Rates: machineParts.Draw(m.T, "rates"),
		})
	}
	payload, err := usage.EncodeTakes(t)
	if err != nil {
		m.Fatal(err)
	}
	m.sent = append(m.sent, payload)
	m.send(payload)
}

func (m *machine) send(payload *anypb.Any) {
	// The error is that the batch was withdrawn, or settled.
	_, _ = m.a.StepTakes(context.Background(), m.now, machineHosts.Draw(m.T, "host"), payload)
}

// above has the cluster above asked, or answer.
func (m *machine) above() {
	if m.asked == nil {
		m.asked = m.a.Parent().Ask(m.now, "region")
		return
	}
	leases := new(claims.Leases)
	for range m.asked.Rows {
		l := claims.Lease{Lasts: rapid.SampledFrom([]time.Duration{0, 1, time.Second, time.Minute}).Draw(m.T, "lasts"), Learning: rapid.Bool().Draw(m.T, "learning")}
		if l.Lasts > 0 {
			l.Amount, l.Safe = machineAmounts.Draw(m.T, "amount"), machineAmounts.Draw(m.T, "safe")
			l.Refresh = l.Lasts / 2
		}
		leases.Rows = append(leases.Rows, l)
	}
	if rapid.IntRange(0, 5).Draw(m.T, "fails") == 0 {
		leases = nil
	}
	m.a.Parent().Hear(m.now, m.asked, leases, nil)
	m.asked = nil
}

// handsOver has the other owner hear what this one has of some keys, and become the one that hosts reach.
func (m *machine) handsOver(moved func(key string) bool) {
	rows, parts := m.a.Buckets(m.now, moved), m.a.Handover(m.now)
	if !rapid.Bool().Draw(m.T, "both are notified") {
		m.a.Moved(m.now)
	}
	m.other.Moved(m.now)
	payload, err := usage.EncodeTakes(&usage.Takes{Rows: rows})
	if err != nil {
		m.Fatal(err)
	}
	if _, err := m.other.StepTakes(context.Background(), m.now, "h0", payload); err != nil {
		m.Fatal(err)
	}
	for _, part := range parts {
		if err := part.Check(); err != nil {
			m.Fatal(err)
		}
		if err := m.other.Claim(m.now, part).Check(len(part.Rows)); err != nil {
			m.Fatal(err)
		}
	}
	if m.asked == nil {
		m.a, m.other = m.other, m.a
	}
}

// Hosts send random messages in any order and as late as they like, while rules and rings change.
// The answers hold to the contract, no algorithm fails, and in the end nothing is left.
func TestAnOwnerOutlivesAnyMessagesAndRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{T: t, log: new(bytes.Buffer)}
		for m.a == nil {
			m.rules()
		}
		t.Repeat(map[string]func(*rapid.T){
			"report":  func(t *rapid.T) { m.T = t; m.report() },
			"reports": func(t *rapid.T) { m.T = t; m.report() },
			"claim":   func(t *rapid.T) { m.T = t; m.claim() },
			"take":    func(t *rapid.T) { m.T = t; m.take() },
			"again": func(t *rapid.T) {
				if m.T = t; len(m.sent) > 0 {
					m.send(rapid.SampledFrom(m.sent).Draw(t, "message"))
				}
			},
			"rules": func(t *rapid.T) { m.T = t; m.rules() },
			"above": func(t *rapid.T) { m.T = t; m.above() },
			"passes": func(t *rapid.T) {
				m.now += rapid.SampledFrom([]time.Duration{-time.Hour, 1, m.interval / 5, m.interval, 3 * m.interval, 24 * time.Hour}).Draw(t, "time")
				m.now = max(m.now, 0)
			},
			"sweeps": func(*rapid.T) { m.a.GC(m.now) },
			"moves":  func(*rapid.T) { m.a.Moved(m.now) },
			"splits": func(t *rapid.T) {
				m.a.Split(m.now, rapid.IntRange(0, 5).Draw(t, "deciders"), rapid.IntRange(0, 5).Draw(t, "missing"))
			},
			"looks": func(t *rapid.T) {
				for _, k := range m.a.Look(m.now, machineKeys.Draw(t, "key")) {
					sane := func(v float64) bool { return v >= -1e300 && v <= 1e300 }
					if !sane(k.Tokens) || !sane(k.Lent) || !sane(k.Over) || k.Lent < -1e-3 || math.IsNaN(k.Bound) || k.Bound < 0 {
						t.Fatalf("%+v", k)
					}
					w := 0.0
					for _, h := range k.Hosts {
						if w += h.Weight; !sane(h.Wants) || !(h.Weight >= 0 && h.Weight <= 1) || !sane(h.Lent) || h.Lent < 0 || h.Wants < 0 {
							t.Fatalf("%+v", k)
						}
					}
					if k.Pooled && w > 1+1e-6 {
						t.Fatalf("weights %v: %+v", w, k)
					}
				}
			},
			"hands over": func(t *rapid.T) {
				odd := rapid.Bool().Draw(t, "odd")
				m.T = t
				m.handsOver(func(key string) bool { return key[0]%2 == 0 == odd })
			},
			"labels": func(*rapid.T) {
				m.a.Label(map[string]algorithm.Labels{"h0": algorithm.NewLabels(map[string]string{"zone": "a"})})
			},
			"refills": func(t *rapid.T) { m.a.Refill(machineKeys.Draw(t, "key")) },
			"": func(t *rapid.T) {
				if n := m.a.keys.Len(); n < 0 || n > 1000 {
					t.Fatalf("%d keys", n)
				}
				if bytes.Contains(m.log.Bytes(), []byte("panic")) || bytes.Contains(m.log.Bytes(), []byte("grant is")) || bytes.Contains(m.log.Bytes(), []byte("part is")) {
					t.Fatalf("%s", m.log)
				}
			},
		})
		m.ends()
		m.a, m.other = m.other, m.a
		m.ends()
	})
}

// ends fails if something is left after a long silence of all hosts.
func (m *machine) ends() {
	s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "*", Limit: 1e12, Burst: 1e12, Algorithm: algorithm.NameElastic}}}.Snapshot()
	if err != nil {
		m.Fatal(err)
	}
	m.a.Core.Configure(m.now, s)
	for range 50 {
		m.now += 48 * time.Hour
		m.a.GC(m.now)
	}
	for sh := range m.a.keys.Table.All {
		for _, e := range sh.Entries() {
			m.Errorf("a key is left: %s under %s, with %d hosts", e.Key.Text(), e.Algorithm, e.Key.Account.Hosts())
		}
	}
	if n := m.a.keys.Len(); n != 0 {
		m.Errorf("%d keys count", n)
	}
	if n := m.a.keys.Hosts.Len(); n != 0 {
		m.Errorf("%d hosts are left", n)
	}
	if n := m.a.Parent().Len(); n != 0 {
		m.Errorf("%d leases from above are left", n)
	}
	if n := inQuota(m.a, "*", false); n != 0 {
		m.Errorf("%d keys count for the rule", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
)

// base is a cluster of four hosts and one owner, with what a test adds to it.
func base(t *testing.T, more ...string) *scenario.Scenario {
	t.Helper()
	return parse(t, `
name: base
duration: 100s
hosts: 4
owners: 1
limits: [{key: k, limit: 1000/s, lease: 20s}]
traffic:
  - {key: k, hosts: 0, rate: 1500/s}
  - {key: k, hosts: 1-3, rate: 10/s}
`+strings.Join(more, "\n"))
}

// between is the mean of admitted per second from one second to before
// another.
func between(k measure.Key, from, to int) float64 {
	sum := 0.0
	for _, s := range k.Seconds[from:to] {
		sum += float64(s.Admitted)
	}
	return sum / float64(to-from)
}

// near fails the test unless got is within 5% or 5 of want.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if d := got - want; d < -max(0.05*want, 5) || d > max(0.05*want, 5) {
		t.Errorf("%s: %.1f, want about %.1f", what, got, want)
	}
}

func TestWithoutFaultsTheLimitIsUsed(t *testing.T) {
	k := run(t, base(t), "request-weighted", 1).Keys[0]
	near(t, "admitted per second", between(k, 30, 100), 1000)
}

func TestGrantsEndWithTheirLease(t *testing.T) {
	for _, cut := range []string{
		`events: [{at: 40s, do: crash, hosts: owners}]`,
		`events: [{at: 40s, do: partition, hosts: owners}]`,
		`events: [{at: 40s, do: partition, hosts: all, from: owners, direction: in}]`,
		`events: [{at: 40s, do: partition, hosts: all, from: owners, direction: out}]`,
		`events: [{at: 40s, do: slow, hosts: owners, by: 5s}]`,
		`events: [{at: 40s, do: pause, hosts: owners, for: 60s}]`,
	} {
		k := run(t, base(t, cut), "request-weighted", 1).Keys[0]
		near(t, cut+": during the lease", between(k, 42, 56), 1000)
		near(t, cut+": then the even share", between(k, 65, 100), 250+30)
	}
}

func TestAHealedPartitionIsForgotten(t *testing.T) {
	for _, heal := range []string{
		`events: [{at: 40s, do: partition, hosts: owners, for: 30s}]`,
		`events: [{at: 40s, do: partition, hosts: owners}, {at: 70s, do: heal}]`,
	} {
		k := run(t, base(t, heal), "request-weighted", 1).Keys[0]
		near(t, heal+": without", between(k, 63, 70), 280)
		near(t, heal+": healed", between(k, 80, 100), 1000)
	}
}

func TestAPartitionOfSomeHostsLeavesTheOthersAlone(t *testing.T) {
	k := run(t, base(t, `events: [{at: 40s, do: partition, hosts: 1-3}]`), "request-weighted", 1).Keys[0]
	near(t, "the hot host is not cut off", between(k, 70, 100), 1000)
}

func TestTrafficOfACrashedHostGoesElsewhereOrIsLost(t *testing.T) {
	crash := `events: [{at: 40s, do: crash, hosts: 1, for: 20s}]`
	text := `
name: crash
duration: 100s
hosts: 2
limits: [{key: k, limit: 1000/s}]
traffic:
  - {key: k, rate: 100/s, arrivals: even, stay: %STAY}
` + crash
	for _, tt := range []struct {
		stay string
		want float64
	}{{"false", 200}, {"true", 100}} {
		k := run(t, parse(t, strings.ReplaceAll(text, "%STAY", tt.stay)), "request-weighted", 1).Keys[0]
		offered := 0.0
		for _, s := range k.Seconds[41:59] {
			offered += float64(s.Offered) / 18
		}
		near(t, "offered while it is away, stay "+tt.stay, offered, tt.want)
		if s := k.Seconds[70]; s.Offered != 200 {
			t.Errorf("back again, %d are offered", s.Offered)
		}
	}
}

func TestWhatWaitsForAPausedHostComesAfterwards(t *testing.T) {
	text := `
name: pause
duration: 60s
hosts: 2
limits: [{key: k, limit: 10000/s}]
traffic: [{key: k, hosts: 0, rate: 100/s, arrivals: even}, {key: k, hosts: 1, rate: 1/s, arrivals: even}]
events: [{at: 20s, do: pause, hosts: 0, for: 10s, traffic: %WHERE}]
`
	waits := run(t, parse(t, strings.ReplaceAll(text, "%WHERE", "waits")), "even", 1).Keys[0]
	if s := waits.Seconds; s[25].Offered != 1 || s[30].Offered < 1090 {
		t.Errorf("during the pause %d, in the second after it %d", s[25].Offered, s[30].Offered)
	}
	// The one source's only host is paused: its events find no other host.
	lost := run(t, parse(t, strings.ReplaceAll(text, "%WHERE", "elsewhere")), "even", 1).Keys[0]
	if s := lost.Seconds; s[25].Offered != 1 || s[30].Offered > 110 {
		t.Errorf("elsewhere: during the pause %d, in the second after it %d", s[25].Offered, s[30].Offered)
	}
}

func TestHostsThatJoinAndLeaveChangeTheEvenShare(t *testing.T) {
	sc := parse(t, `
name: members
duration: 100s
hosts: 4
absent: 2-3
membership: {detect: 5s, delay: 0s..1s}
limits: [{key: k, limit: 1000/s}]
traffic: [{key: k, hosts: 0, rate: 2000/s}]
events:
  - {at: 20s, do: join, hosts: 2-3}
  - {at: 40s, do: leave, hosts: 1}
  - {at: 60s, do: crash, hosts: 2, for: 2s}
  - {at: 80s, do: crash, hosts: 3}
`)
	k := run(t, sc, "even", 1).Keys[0]
	near(t, "of two", between(k, 2, 20), 500)
	near(t, "of four", between(k, 22, 40), 250)
	near(t, "of three", between(k, 42, 60), 1000./3)
	near(t, "of three, one of which crashed and came back unnoticed", between(k, 60, 80), 1000./3)
	near(t, "a crash is not seen at once", between(k, 80, 85), 1000./3)
	near(t, "of two again", between(k, 87, 100), 500)
}

func TestARestartLosesWhatTheOwnerKnew(t *testing.T) {
	sc := base(t, `events: [{at: 50s, do: restart, hosts: owners, for: 1s}]`)
	k := run(t, sc, "request-weighted", 1).Keys[0]
	near(t, "after it", between(k, 70, 100), 1000)
	// For a while each host that reports first is taken for the only one.
	if w := sum(k.Weights[53]); w < 1.01 {
		t.Errorf("just after it, weights sum to %.2f", w)
	}
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

func TestRollingRestartTakesOneHostAtATime(t *testing.T) {
	sc := parse(t, `
name: rolling
duration: 100s
hosts: 4
limits: [{key: k, limit: 1000/s}]
traffic: [{key: k, rate: 50/s}]
events: [{at: 10s, do: restart, hosts: all, every: 20s, for: 5s}]
`)
	k := run(t, sc, "even", 1).Keys[0]
	down := func(second int) (hosts []int) {
		for h, w := range k.Weights[second] {
			if w == 0 {
				hosts = append(hosts, h)
			}
		}
		return hosts
	}
	for i := range 4 {
		if d := down(10 + 20*i + 3); len(d) != 1 || d[0] != i {
			t.Errorf("step %d: down are %v", i, d)
		}
		if d := down(10 + 20*i + 8); len(d) != 0 {
			t.Errorf("step %d: still down are %v", i, d)
		}
	}
}

func TestTheLimitFollowsConfig(t *testing.T) {
	sc := base(t, `events: [{at: 40s, do: limit, key: k, limit: 200/s, burst: 50, mark: less}]`)
	r := run(t, sc, "request-weighted", 1)
	k := r.Keys[0]
	near(t, "before", between(k, 20, 40), 1000)
	near(t, "after", between(k, 50, 100), 200)
	if k.Seconds[39].Limit != 1000 || k.Seconds[40].Limit != 200 {
		t.Errorf("the limit is %v and then %v", k.Seconds[39].Limit, k.Seconds[40].Limit)
	}
	if len(r.Marks) != 1 || k.SettleS > 10 {
		t.Errorf("marks %v, settled in %v s", r.Marks, k.SettleS)
	}
}

func TestTheNetworkLosesDoublesAndDelays(t *testing.T) {
	lost := run(t, base(t, "network: {loss: 100%}"), "request-weighted", 1).Keys[0]
	near(t, "all lost", between(lost, 10, 100), 280)
	half := run(t, base(t, "network: {loss: 30%, duplicate: 50%, reorder: 50%, hold_back: 500ms, jitter: 200ms}"), "request-weighted", 1).Keys[0]
	near(t, "some lost, many twice", between(half, 30, 100), 1000)
	late := run(t, base(t, "network: {latency: 600ms}"), "request-weighted", 1).Keys[0]
	near(t, "answers come after the timeout of 1 s", between(late, 10, 100), 280)
	held := run(t, base(t, "network: {reorder: 100%, hold_back: 600ms}"), "request-weighted", 1).Keys[0]
	near(t, "so they do when all are held back", between(held, 10, 100), 280)
}

func TestOwnersAreFoundByTheRing(t *testing.T) {
	sc := parse(t, `
name: owner
duration: 60s
hosts: 6
limits: [{key: k, limit: 1000/s, lease: 10s}]
traffic: [{key: k, rate: 300/s}]
membership: {detect: 1h}
events: [{at: 30s, do: crash, hosts: owner of k}]
`)
	k := run(t, sc, "request-weighted", 1).Keys[0]
	down := 0
	for _, w := range k.Weights[40] {
		if w == 0 {
			down++
		}
	}
	if down != 1 {
		t.Errorf("%d hosts are down", down)
	}
	// Nobody notices: the five that are left fall back to a sixth each.
	near(t, "in fallback", between(k, 45, 60), 1000*5./6)
}

func TestTheRingFollowsTheMembers(t *testing.T) {
	sc := parse(t, `
name: owner
duration: 60s
hosts: 6
limits: [{key: k, limit: 1000/s, lease: 10s}]
traffic: [{key: k, hosts: 0, rate: 700/s}, {key: k, hosts: 1-5, rate: 100/s}]
membership: {detect: 2s}
events: [{at: 30s, do: crash, hosts: owner of k}]
`)
	k := run(t, sc, "request-weighted", 1).Keys[0]
	near(t, "the next owner decides", between(k, 50, 60), 1000)
}

// bytesPerCall is what a call moves over the network on average.
func bytesPerCall(t *testing.T, more string) float64 {
	t.Helper()
	k := run(t, base(t, more), "request-weighted", 1).Keys[0]
	return k.BytesPerHostS / k.ReportsPerHostS
}

func TestAnswersAreSentOnlyToWhatArrives(t *testing.T) {
	both := bytesPerCall(t, "")
	// An answer has 40 bytes of type URL and some columns.
	for more, answered := range map[string]bool{
		`events: [{at: 0s, do: partition, hosts: all, from: owners, direction: in}]`:  true,
		`events: [{at: 0s, do: partition, hosts: all, from: owners, direction: out}]`: false,
		`events: [{at: 0s, do: partition, hosts: owners, from: all, direction: out}]`: true,
		`network: {latency: 900ms}`:  true,
		`network: {latency: 1100ms}`: false, // the deadline travels with the request
	} {
		if got := bytesPerCall(t, more); (got > both-30) != answered {
			t.Errorf("%s: %.0f bytes per call, %.0f without", more, got, both)
		}
	}
}

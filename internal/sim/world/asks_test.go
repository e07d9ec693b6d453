// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/measure"
)

// asks is a scenario in which every event asks, with what a test adds to it.
func asks(t *testing.T, rule, rate string, more ...string) *measure.Key {
	t.Helper()
	sc := parse(t, `
name: asks
duration: 60s
hosts: 2
owners: 1
limits: [{key: k, algorithm: exact, `+rule+`}]
traffic: [{key: k, rate: `+rate+`}]
`+strings.Join(more, "\n"))
	first := run(t, sc, "", 1)
	if again := run(t, sc, "", 1); everything(t, again) != everything(t, first) {
		t.Error("two runs with the same seed differ")
	}
	return &first.Keys[0]
}

func TestAnAskTakesAsLongAsTheNetwork(t *testing.T) {
	k := asks(t, "limit: 1000/s, ask_timeout: 200ms", "10/s", "network: {latency: 30ms}")
	if k.WaitedPct != 100 || k.UtilisationPct != 100 || k.WaitP50 < 58*time.Millisecond || k.WaitP50 > 62*time.Millisecond {
		t.Errorf("an answer takes 60 ms: %+v", k.Metrics)
	}
	// No answer comes within the rule's ask_timeout, and the fallback is an even part.
	k = asks(t, "limit: 10/s, burst: 10, ask_timeout: 50ms", "20/s", "network: {latency: 30ms}")
	if k.WaitP99 > 52*time.Millisecond || between(*k, 30, 60) < 9 || between(*k, 30, 60) > 11 {
		t.Errorf("the fallback decides after 50 ms: %+v, %.1f/s admitted", k.Metrics, between(*k, 30, 60))
	}
}

func TestAsksToOneOwnerShareCalls(t *testing.T) {
	// A host has 1,000 asks per second and an answer takes 10 ms. A call starts every
	// half millisecond, up to four at once: 400 per second.
	k := asks(t, "limit: 10000/s, ask_timeout: 200ms", "1000/s", "network: {latency: 5ms}")
	if k.AsksPerHostS < 300 || k.AsksPerHostS > 420 || k.UtilisationPct < 99.9 || k.WaitP99 > 15*time.Millisecond {
		t.Errorf("1,000 events/s: %+v", k.Metrics)
	}
}

// Of a bucket of 50 tokens that does not refill, everything is admitted and nothing
// twice, whatever happens to calls: what was taken without an answer goes back.
func TestTokensOfAnAskWithoutAnAnswerGoBack(t *testing.T) {
	for _, mishap := range []string{
		"network: {loss: 20%, duplicate: 30%, reorder: 30%, hold_back: 15ms, jitter: 5ms}",
		"events: [{at: 1s, do: partition, hosts: owners, for: 500ms, direction: out}]",
		"events: [{at: 1s, do: pause, hosts: owners, for: 500ms}]",
		"events: [{at: 1s, do: pause, hosts: all, for: 500ms}]",
		"events: [{at: 1s, do: slow, hosts: owners, by: 30ms, for: 500ms}]",
	} {
		k := asks(t, "limit: 0.001/s, burst: 50, fallback: closed", "10/s", mishap)
		if k.Admitted != 50 {
			t.Errorf("%s: %d admitted, want 50", mishap, k.Admitted)
		}
	}
}

// What waits at a host that crashes is lost, and so are its answers.
func TestAHostCrashesWhileItAsks(t *testing.T) {
	text := "network: {latency: 100ms}\nevents: [{at: 30s, do: crash, hosts: 0, for: 10ms}]"
	k := asks(t, "limit: 1000/s, ask_timeout: 1s", "10/s, arrivals: even, stay: true", text)
	lost := 2*60*10 - k.Offered
	// Of host 0, 200 ms and the time it is away; of both, what is not answered at the end.
	if lost < 2+2*2 || lost > 3+2*2 {
		t.Errorf("%d events are lost", lost)
	}
}

// A call in the background keeps no decision waiting, and takes its time.
func TestCallsInTheBackgroundKeepNobodyWaiting(t *testing.T) {
	sc := parse(t, `
name: background
duration: 60s
hosts: 2
owners: 1
network: {latency: 5ms}
limits: [{key: k, limit: 100/s, migrate: {from: even, to: exact, mode: old-shadow-new}}]
traffic: [{key: k, rate: 10/s}]
`)
	k := run(t, sc, "", 1).Keys[0]
	if k.AsksPerHostS < 9 || k.WaitedPct != 0 {
		t.Errorf("the new algorithm is measured: %+v", k.Metrics)
	}
}

// Only the keys whose rules may ask have workers.
func TestKeysThatCannotAskHaveNoWorker(t *testing.T) {
	sc := parse(t, `
name: mixed
duration: 10s
hosts: 2
limits: [{key: k, limit: 10/s, algorithm: exact}, {key: l, limit: 10/s, algorithm: elastic}]
traffic: [{key: l, rate: 10/s}]
`)
	c, err := newCluster(sc, sc.Limits, algorithm.Builtin(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Jobs() != 0 {
		t.Errorf("%d workers", c.Jobs())
	}
}

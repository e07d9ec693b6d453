// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/traffic"
)

const small = `name: small
duration: 10s
hosts: 3
limits:
  - key: "a:*"
    limit: 10/s
traffic:
  - {key: "a:b", rate: 1/s}
`

// parsed reads a scenario out of the test.
func parsed(t *testing.T, text string) *Scenario {
	t.Helper()
	sc, err := Parse("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestParseReadsEverything(t *testing.T) {
	sc := parsed(t, `
name: whole
description: >
  two
  lines
duration: 1m
warmup: 5s
hosts: [alpha, beta, gamma]
absent: gamma
owners: 2
network: {latency: 2ms, jitter: 1ms, loss: 1%, duplicate: 2%, reorder: 3%, hold_back: 20ms}
membership: {detect: 3s, delay: 1ms..2ms}
defaults:
  update_interval: 1s
limits:
  - key: "a:*"
    limit: 600/m
traffic:
  - {key: "a:b", hosts: "alpha, 1", rate: 60/m, arrivals: even, cost: 2..3, stay: true}
  - {key: "a:c", hosts: [0, gamma], total: {steps: {0s: 1/s, 10s: 2/s}}, spread: random}
  - {key: "a:d", hosts: random 2, rate: {ramp: {from: 1/s, to: 2/s, at: 5s, for: 5s}}}
  - {key: "a:e", bursts: {rate: 5/s, every: 3s, for: 1s, on: next 2, from: 1s, mark: burst}}
events:
  - {at: 30s, do: partition, hosts: 0-1, from: owners, direction: out, for: 3s, mark: cut}
  - {at: 20s, do: pause, hosts: owner of a:b, for: 1s, traffic: elsewhere}
`)
	if sc.Name != "whole" || !strings.HasPrefix(sc.Description, "two lines") || sc.Duration != time.Minute || sc.Warmup != 5*time.Second ||
		len(sc.Hosts) != 3 || len(sc.Absent) != 1 || sc.Absent[0] != 2 || sc.Owners != 2 {
		t.Errorf("%+v", sc)
	}
	if want := (Network{2 * time.Millisecond, time.Millisecond, 0.01, 0.02, 0.03, 20 * time.Millisecond}); sc.Network != want {
		t.Errorf("network %+v, want %+v", sc.Network, want)
	}
	if sc.Limits.Properties().UpdateInterval != time.Second {
		t.Error("defaults are not those of the file")
	}
	s := sc.Sources
	if len(s) != 4 || s[0].Rate != traffic.Constant(1) || !s[0].Even || !s[0].Stay || s[0].Cost != (traffic.Cost{From: 2, To: 3}) || s[1].Spread != SpreadRandom || !s[1].Total ||
		s[3].Bursts.Hosts != 2 || !s[3].Bursts.Next {
		t.Errorf("sources %+v", s)
	}
	if a := sc.Steps; len(a) != 2 || a[0].Do != "pause" || !a[0].Elsewhere || a[1].Direction != "out" || a[1].Mark != "cut" {
		t.Errorf("events are not in order of time: %+v", a)
	}
}

func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", "bad.yaml: has no content"},
		{"no map", "- 1", "bad.yaml:1:1: the scenario: is no map"},
		{"broken", "name: [", "bad.yaml:1:"},
		{"two documents", small + "---\nname: b\n", "several documents"},
		{"unknown field", small + "limit: 3\n", `bad.yaml:9:1: the scenario: there is no field "limit": known are absent,`},
		{"twice", small + "hosts: 3\n", "bad.yaml:9:1: the scenario: hosts is given twice"},
		{"no name", strings.Replace(small, "name: small\n", "", 1), "has no name"},
		{"no duration", strings.Replace(small, "duration: 10s\n", "", 1), "has no duration"},
		{"no hosts", strings.Replace(small, "hosts: 3\n", "", 1), "has no hosts"},
		{"no traffic", small[:strings.Index(small, "traffic")], "neither traffic nor a trace"},
		{"duration without unit", strings.Replace(small, "10s", "10", 1), `bad.yaml:2:11: duration: "10" has no unit`},
		{"duration too long", strings.Replace(small, "10s", "100d", 1), "out of range"},
		{"hosts", strings.Replace(small, "hosts: 3", "hosts: 0", 1), "bad.yaml:3:8: hosts: is \"0\": write a whole number, 1 to"},
		{"host twice", strings.Replace(small, "hosts: 3", "hosts: [a, a]", 1), "listed twice"},
		{"host like an owner", strings.Replace(small, "hosts: 3", "hosts: [owner-1]", 1), "begins with owner-"},
		{"a limit's own message", strings.Replace(small, "limit: 10/s", "limit: 10", 1), `bad.yaml:6:12: rule "a:*": limit: "10" has no unit`},
		{"warmup", small + "warmup: 10s\n", "warmup: is not shorter"},
		{"no rule", strings.Replace(small, `key: "a:b"`, `key: "b:b"`, 1), `bad.yaml:8:6: source number 1: no rule matches the key "b:b"`},
		{"no rate", strings.Replace(small, ", rate: 1/s", "", 1), "source number 1: needs one of rate"},
		{"two rates", strings.Replace(small, "rate: 1/s", "rate: 1/s, total: 2/s", 1), "needs one of rate"},
		{"rate", strings.Replace(small, "rate: 1/s", "rate: 1", 1), "source number 1: rate: "},
		{"rate too high", strings.Replace(small, "rate: 1/s", "rate: 1e99/s", 1), "out of range"},
		{"negative rate", strings.Replace(small, "rate: 1/s", "rate: -1/s", 1), "out of range"},
		{"rate function", strings.Replace(small, "rate: 1/s", "rate: {wave: 1/s}", 1), `there is no field "wave": known are onoff, ramp, sine, steps, walk`},
		{"steps out of order", strings.Replace(small, "rate: 1/s", "rate: {steps: {5s: 1/s, 5s: 2/s}}", 1), "not later than the step before"},
		{"half a ramp", strings.Replace(small, "rate: 1/s", "rate: {ramp: {from: 1/s}}", 1), "needs all of its fields"},
		{"cost", strings.Replace(small, "rate: 1/s", "rate: 1/s, cost: 3..2", 1), "write the smaller one first"},
		{"spread of a rate", strings.Replace(small, "rate: 1/s", "rate: 1/s, spread: random", 1), "spread is about a total"},
		{"hosts of a source", strings.Replace(small, "rate: 1/s", "rate: 1/s, hosts: 2-3", 1), `"2-3" is none of the 3 hosts`},
		{"random", strings.Replace(small, "rate: 1/s", "rate: 1/s, hosts: random 4", 1), "write random 1 to random 3"},
		{"owners", strings.Replace(small, "rate: 1/s", "rate: 1/s, hosts: owners", 1), "there are no hosts that only decide"},
		{"bursts", strings.Replace(small, "rate: 1/s", "bursts: {rate: 1/s}", 1), "bursts: has no every"},
		{"event without time", small + "events:\n  - {do: heal}\n", "bad.yaml:10:5: event number 1: has no at"},
		{"event after the end", small + "events: [{at: 10s, do: heal}]\n", "after the end"},
		{"event", small + "events: [{at: 1s, do: explode}]\n", `there is no "explode": known are algorithm, autoscale, clock_step, crash,`},
		{"empty event", small + "events: [{at: 1s}]\n", "neither do nor mark"},
		{"field of another event", small + "events: [{at: 1s, do: heal, hosts: 1}]\n", "heal has no hosts: remove it"},
		{"field that is needed", small + "events: [{at: 1s, do: pause, hosts: 1}]\n", "pause has no for: add it"},
		{"limit of no rule", small + "events: [{at: 1s, do: limit, key: x, limit: 1/s}]\n", `no rule has the key "x"`},
		{"slow backwards", small + "events: [{at: 1s, do: slow, hosts: 1, by: -1s}]\n", "slow takes a delay"},
		{"sticky without clients", strings.Replace(small, "rate: 1/s", "total: 1/s, spread: sticky", 1), "add clients"},
		{"clients", strings.Replace(small, "rate: 1/s", "rate: 1/s, clients: {zipf: 1}", 1), "clients: have no count"},
		{"clump", strings.Replace(small, "rate: 1/s", "rate: 1/s, clients: {count: 1, clump: 0.5}", 1), "write a number from 1 to"},
		{"retry", strings.Replace(small, "rate: 1/s", "rate: 1/s, retry: {tries: 3}", 1), "retry: has no after"},
		{"one try", strings.Replace(small, "rate: 1/s", "rate: 1/s, retry: {after: 1s, tries: 1}", 1), "a whole number, 2 to"},
		{"onoff", strings.Replace(small, "rate: 1/s", "rate: {onoff: {rate: 1/s, on: 1s}}", 1), "onoff: has no off"},
		{"shape", strings.Replace(small, "rate: 1/s", "rate: {onoff: {rate: 1/s, on: 1s, off: 1s, shape: 2}}", 1), "write a number from 1.05 to 1.95"},
		{"pareto", strings.Replace(small, "rate: 1/s", "rate: 1/s, cost: {pareto: {mean: 20}}", 1), "has no mean or no most"},
		{"pareto mean", strings.Replace(small, "rate: 1/s", "rate: 1/s, cost: {pareto: {mean: 20, most: 20}}", 1), "the mean is not below most"},
		{"autoscale", small + "events: [{at: 1s, do: autoscale, hosts: 1-2, every: 1s, target: 0/s}]\n", "needs a target above 0/s"},
		{"anchor", strings.Replace(small, "hosts: 3", "hosts: &x 3", 1), "hosts: is no single value"},
		{"trace elsewhere", small + "trace: ../x.csv\n", "name a file in the scenario's own folder"},
		{"no trace there", small + "trace: x.csv\n", "bad.yaml:9:1: trace: "},
		{"too long", strings.Repeat("#", maxScenario+1), "use at most"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("bad.yaml", []byte(tt.text), func(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v\nwant  %s", err, tt.want)
			}
		})
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	_, err := Parse("bad.yaml", []byte("name: a\nduration: x\nowners: y\nlimits: 3\n"), nil)
	for _, line := range []string{"bad.yaml:2:", "bad.yaml:3:", "bad.yaml:4:"} {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%v has no %s", err, line)
		}
	}
	var first *dynamicconfig.Error
	if !errors.As(err, &first) || first.Line != 2 {
		t.Errorf("%+v", first)
	}
}

func TestBuiltinScenariosAreWholeAndShort(t *testing.T) {
	names := Names()
	if len(names) < 18 {
		t.Fatalf("only %d scenarios", len(names))
	}
	for _, name := range names {
		sc, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if sc.Name != name || sc.Description == "" {
			t.Errorf("%s: name %q, description %q", name, sc.Name, sc.Description)
		}
	}
	if _, err := Load("no-such"); err == nil || !strings.Contains(err.Error(), "steady-skew") {
		t.Errorf("err = %v", err)
	}
}

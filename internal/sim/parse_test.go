// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
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

func TestParseReadsEverything(t *testing.T) {
	sc := parse(t, `
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
	if want := (Network{2 * ms, ms, 0.01, 0.02, 0.03, 20 * ms}); sc.Network != want {
		t.Errorf("network %+v, want %+v", sc.Network, want)
	}
	if sc.Limits.Properties().UpdateInterval != time.Second {
		t.Error("defaults are not those of the file")
	}
	s := sc.Sources
	if len(s) != 4 || s[0].Rate != Constant(1) || !s[0].Even || !s[0].Stay || s[0].Costs != [2]int64{2, 3} || !s[1].Spread || !s[1].Total ||
		s[3].Bursts.Hosts != 2 || !s[3].Bursts.Next {
		t.Errorf("sources %+v", s)
	}
	if a := sc.Steps; len(a) != 2 || a[0].Do != "pause" || !a[0].Elsewhere || a[1].Direction != "out" || a[1].Mark != "cut" {
		t.Errorf("events are not in order of time: %+v", a)
	}
	if _, err := Run(sc, "", 1); err != nil {
		t.Error(err)
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
		{"rate function", strings.Replace(small, "rate: 1/s", "rate: {wave: 1/s}", 1), `there is no field "wave": known are ramp, sine, steps, walk`},
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
		{"event", small + "events: [{at: 1s, do: explode}]\n", `there is no "explode": known are clock_step, crash,`},
		{"empty event", small + "events: [{at: 1s}]\n", "neither do nor mark"},
		{"field of another event", small + "events: [{at: 1s, do: heal, hosts: 1}]\n", "heal has no hosts: remove it"},
		{"field that is needed", small + "events: [{at: 1s, do: pause, hosts: 1}]\n", "pause has no for: add it"},
		{"limit of no rule", small + "events: [{at: 1s, do: limit, key: x, limit: 1/s}]\n", `no rule has the key "x"`},
		{"slow backwards", small + "events: [{at: 1s, do: slow, hosts: 1, by: -1s}]\n", "slow takes a delay"},
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
		sc := load(t, name)
		if sc.Name != name || sc.Description == "" {
			t.Errorf("%s: name %q, description %q", name, sc.Name, sc.Description)
		}
	}
	if _, err := Load("no-such"); err == nil || !strings.Contains(err.Error(), "steady-skew") {
		t.Errorf("err = %v", err)
	}
}

func TestLoadReadsAFileAndTheTraceBesideIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mine.yaml", "name: mine\nduration: 10s\nlimits: [{key: k, limit: 5/s}]\ntrace: mine.csv\n")
	write("mine.csv", "time_s,host,key,cost\n2.5,web-2,k,3\n0.5,web-1,k,1\n99,web-1,k,1\n")
	sc := load(t, filepath.Join(dir, "mine.yaml"))
	if len(sc.Hosts) != 2 || sc.Hosts[0] != "web-2" {
		t.Errorf("hosts %v", sc.Hosts)
	}
	k := run(t, sc, "even", 1).Keys[0]
	if k.Offered != 4 || k.Seconds[0].Offered != 1 || k.Seconds[2].Offered != 3 {
		t.Errorf("%+v", k)
	}
	write("mine.csv", "time_s,host,key,cost\n2.5,web-2,k,3\n1,web-1,k\n")
	if _, err := Load(filepath.Join(dir, "mine.yaml")); err == nil || !strings.Contains(err.Error(), "mine.csv:3: 3 fields") {
		t.Errorf("err = %v", err)
	}
	write("named.yaml", "name: named\nduration: 10s\nhosts: [web-1]\nlimits: [{key: k, limit: 5/s}]\ntrace: mine.csv\n")
	write("mine.csv", "time_s,host,key,cost\n2.5,web-2,k,3\n")
	if _, err := Load(filepath.Join(dir, "named.yaml")); err == nil || !strings.Contains(err.Error(), `events of "web-2"`) {
		t.Errorf("err = %v", err)
	}
}

func TestTraceMistakes(t *testing.T) {
	const head = "time_s,host,key,cost\n"
	tests := []struct{ text, want string }{
		{"", "t.csv: has no events"},
		{head, "t.csv: has no events"},
		{"1,a,k,1\n", "t.csv:1: begins with \"1,a,k,1\": write the header"},
		{head + "1,a,k\n", "t.csv:2: 3 fields"},
		{head + "1,a,k,1,2\n", "t.csv:2: 5 fields"},
		{head + "x,a,k,1\n", "t.csv:2: time_s"},
		{head + "-1,a,k,1\n", "t.csv:2: time_s"},
		{head + "NaN,a,k,1\n", "t.csv:2: time_s"},
		{head + "1e99,a,k,1\n", "t.csv:2: time_s"},
		{head + "1,,k,1\n", "t.csv:2: host"},
		{head + "1,a,,1\n", "t.csv:2: host"},
		{head + "1,a,k,0\n", "t.csv:2: cost"},
		{head + "1,a,k,1.5\n", "t.csv:2: cost"},
		{head + "\n# comment\n1,a,k,99999999999999999999\n", "t.csv:4: cost"},
		{head + strings.Repeat("x", 5000), "t.csv:2: a line of more than"},
	}
	for _, tt := range tests {
		if _, err := ParseTrace("t.csv", strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: err = %v, want %s", tt.text, err, tt.want)
		}
	}
	good, err := ParseTrace("t.csv", strings.NewReader("\ufefftime_s, host, key, cost\r\n2,b,k,1\r\n\r\n1, a ,k, 2\r\n1,b,j,3"))
	if err != nil {
		t.Fatal(err)
	}
	if len(good.rows) != 3 || good.rows[0].cost != 2 || good.rows[1].cost != 3 || good.rows[2].cost != 1 || len(good.Keys) != 2 {
		t.Errorf("%+v", good)
	}
}

// A trace of half a million lines out of order is no problem.
func TestHugeTrace(t *testing.T) {
	events := 500_000
	if testing.Short() {
		events = 20_000
	}
	var b strings.Builder
	b.WriteString("time_s,host,key,cost\n")
	for i := range events {
		fmt.Fprintf(&b, "%d.%03d,h%d,k%d,1\n", (i*7919)%100, i%1000, i%50, i%20)
	}
	files := fstest.MapFS{"t.csv": &fstest.MapFile{Data: []byte(b.String())}}
	sc, err := Parse("huge.yaml", []byte("name: huge\nduration: 100s\nlimits: [{key: k*, limit: 100/s}]\ntrace: t.csv\n"),
		func(file string) (io.ReadCloser, error) { return files.Open(file) })
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(sc, "request-weighted", 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.All == nil || r.All.Offered != int64(events) || len(r.Keys) != 20 {
		t.Errorf("%+v", r.All)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, err := builtin.ReadFile("scenarios/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(small)
	trace := "time_s,host,key,cost\n1,a,a:b,1\n"
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := Parse("fuzz.yaml", []byte(text), func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(trace)), nil })
		if (sc == nil) == (err == nil) {
			t.Fatal("exactly one of both")
		}
		if err != nil || sc.Duration > 5*time.Second || len(sc.Hosts)+sc.Owners > 20 {
			return
		}
		sum := 0.0
		for _, s := range sc.Sources {
			if c, ok := s.Rate.(Constant); ok {
				sum += float64(c)
			} else {
				sum = maxRate
			}
		}
		if sum < 1000 {
			_, _ = Run(sc, "", 1) // must end, and not panic
		}
	})
}

func FuzzParseTrace(f *testing.F) {
	f.Add("time_s,host,key,cost\n1,a,k,1\n0.5,b,k,2\n")
	f.Add("# x\ntime_s,host,key,cost\n\n1e3,a,k,1000000000\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseTrace("t.csv", strings.NewReader(text))
		if (trace == nil) == (err == nil) {
			t.Fatal("exactly one of both")
		}
		if err != nil {
			return
		}
		for i, r := range trace.rows {
			if r.at < 0 || r.at > maxDuration || r.cost < 1 || i > 0 && trace.rows[i-1].at > r.at {
				t.Fatalf("row %d: %+v", i, r)
			}
		}
	})
}

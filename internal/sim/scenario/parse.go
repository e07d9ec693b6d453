// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/scenario/nodes"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// maxScenario is the largest scenario file, in bytes.
const maxScenario = 1 << 20

// Parse reads a scenario; docs/scenarios.md describes its fields. Name is for
// messages, usually the file's path; open opens a trace that stands beside
// it. The error joins one for each mistake, with file, line and column.
func Parse(name string, data []byte, open func(file string) (io.ReadCloser, error)) (*Scenario, error) {
	if len(data) > maxScenario {
		return nil, fmt.Errorf("%s: has %d bytes: use at most %d, and a trace for traffic", name, len(data), maxScenario)
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	d := decoder{&nodes.Decoder{Name: name, Text: text}}
	sc := &Scenario{
		Network:    Network{Latency: time.Millisecond, HoldBack: 10 * time.Millisecond},
		Membership: Membership{Detect: 5 * time.Second, Delay: traffic.Span{To: 200 * time.Millisecond}},
	}
	if root := d.Parse(); root != nil {
		d.scenario(root, sc, open)
	}
	if len(d.Errs) > 0 {
		return nil, errors.Join(d.Errs...)
	}
	return sc, nil
}

// scenario reads the whole file.
func (d decoder) scenario(root ast.Node, sc *Scenario, open func(string) (io.ReadCloser, error)) {
	keep := make(map[string]ast.Node)
	later := func(name string) func(ast.Node) { return func(n ast.Node) { keep[name] = n } }
	var trace string
	seen := d.Mapping(root, "the scenario", nodes.Fields{
		"name":        d.Str("name", &sc.Name),
		"description": d.Str("description", &sc.Description),
		"duration":    d.Duration("duration", &sc.Duration, time.Second, traffic.MaxDuration),
		"warmup":      d.Duration("warmup", &sc.Warmup, 0, traffic.MaxDuration),
		"hosts":       later("hosts"),
		"absent":      later("absent"),
		"owners":      d.Integer("owners", &sc.Owners, 0, MaxHosts),
		"clusters":    later("clusters"),
		"network":     func(n ast.Node) { network(d, n, &sc.Network) },
		"membership":  func(n ast.Node) { membership(d, n, &sc.Membership) },
		"defaults":    nil,
		"limits":      nil,
		"traffic":     later("traffic"),
		"trace":       d.Str("trace", &trace),
		"events":      later("events"),
	})
	if seen == nil {
		return
	}
	for _, name := range []string{"name", "duration", "limits"} {
		if seen[name] == nil {
			d.Fail(root, "the scenario: has no %s: add it", name)
		}
	}
	if seen["traffic"] == nil && seen["trace"] == nil {
		d.Fail(root, "the scenario: has neither traffic nor a trace: add one")
	}
	if sc.Warmup >= sc.Duration && sc.Duration > 0 {
		d.Fail(seen["warmup"], "warmup: is not shorter than the duration of %s", sc.Duration)
	}
	if trace != "" {
		d.trace(seen["trace"], trace, sc, open)
	}
	if n := keep["clusters"]; n != nil {
		for _, name := range []string{"hosts", "owners", "trace"} {
			if seen[name] != nil {
				d.Fail(seen[name], "%s: are those of the clusters: remove it", name)
			}
		}
		d.tree(n, sc)
	} else {
		d.hostsOf(root, keep["hosts"], sc)
	}
	d.limits(seen, sc)
	if len(d.Errs) > 0 {
		return // the rest refers to hosts and limits
	}
	if n := keep["absent"]; n != nil {
		var s Selection
		d.hosts("absent", &s, sc)(n)
		if s.random > 0 || s.owner != "" {
			d.Fail(n, "absent: name the hosts, as in 5-9")
		}
		sc.Absent = s.Fixed
	}
	if n := keep["traffic"]; n != nil {
		d.traffic(n, sc)
	}
	if n := keep["events"]; n != nil {
		d.actions(n, sc)
	}
}

func network(d decoder, n ast.Node, net *Network) {
	d.Mapping(n, "network", nodes.Fields{
		"latency":   d.Duration("latency", &net.Latency, 0, time.Minute),
		"jitter":    d.Duration("jitter", &net.Jitter, 0, time.Minute),
		"loss":      d.Part("loss", &net.Loss),
		"duplicate": d.Part("duplicate", &net.Duplicate),
		"reorder":   d.Part("reorder", &net.Reorder),
		"hold_back": d.Duration("hold_back", &net.HoldBack, 0, time.Minute),
	})
}

func membership(d decoder, n ast.Node, m *Membership) {
	d.Mapping(n, "membership", nodes.Fields{
		"detect": d.Duration("detect", &m.Detect, 0, time.Hour),
		"splits": d.Duration("splits", &m.Splits, 0, time.Hour),
		"delay":  d.Span("delay", &m.Delay, 0, time.Hour),
	})
}

// trace reads the file beside the scenario.
func (d decoder) trace(n ast.Node, file string, sc *Scenario, open func(string) (io.ReadCloser, error)) {
	if open == nil || strings.ContainsAny(file, `/\`) {
		d.Fail(n, "trace: %q: name a file in the scenario's own folder", file)
		return
	}
	r, err := open(file)
	if err != nil {
		d.Fail(n, "trace: %v", err)
		return
	}
	defer r.Close()
	if sc.Trace, err = traffic.ParseTrace(file, r); err != nil {
		d.Fail(n, "trace: %v", err)
	}
}

// hostsOf reads the hosts: a number, names, or those of the trace.
func (d decoder) hostsOf(root, n ast.Node, sc *Scenario) {
	switch list, isList := n.(*ast.SequenceNode); {
	case n == nil && sc.Trace != nil:
		sc.Hosts = sc.Trace.Hosts
	case n == nil:
		d.Fail(root, "the scenario: has no hosts: write how many there are, or their names")
		return
	case isList:
		for _, v := range list.Values {
			if name, ok := d.Scalar(v, "hosts"); ok {
				sc.Hosts = append(sc.Hosts, name)
			}
		}
	default:
		var count int
		d.Integer("hosts", &count, 1, MaxHosts)(n)
		for i := range count {
			sc.Hosts = append(sc.Hosts, fmt.Sprintf("host-%d", i))
		}
	}
	known := make(map[string]bool)
	for _, name := range sc.Hosts {
		if name == "" || known[name] || strings.HasPrefix(name, "owner-") || len(name) > 200 {
			d.Fail(n, "hosts: %.60q is empty, long, listed twice, or begins with owner-: choose another name", name)
			return
		}
		known[name] = true
	}
	if len(sc.Hosts) > MaxHosts {
		d.Fail(n, "hosts: %d are too many: use at most %d", len(sc.Hosts), MaxHosts)
	}
	if sc.Trace == nil {
		return
	}
	for _, name := range sc.Trace.Hosts {
		if !known[name] {
			d.Fail(n, "hosts: the trace has events of %.60q, which is none of them: leave hosts out to take the trace's", name)
			return
		}
	}
}

// limits hands the parts that a config file has to the parser of config
// files, with all other lines left blank so that its messages name the right
// ones.
func (d decoder) limits(seen map[string]ast.Node, sc *Scenario) {
	if seen["limits"] == nil {
		return
	}
	lines := strings.Split(d.Text, "\n")
	keep := false
	for i, line := range lines {
		if line != "" && !strings.ContainsAny(line[:1], " \t#-") {
			keep = strings.HasPrefix(line, "limits:") || strings.HasPrefix(line, "defaults:")
		}
		if !keep {
			lines[i] = ""
		}
	}
	var err error
	if sc.Limits, err = dynamicconfig.Parse(d.Name, []byte(strings.Join(lines, "\n"))); err != nil {
		d.Errs = append(d.Errs, err)
	}
}

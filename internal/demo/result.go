// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Result is what was measured, as `headgate-lab demo --json` prints it.
type Result struct {
	LimitPerS float64 `json:"limit_per_s"`
	// Phases that were measured, in order; all of them unless the run was
	// interrupted. When there were several rounds, it is the newest of each.
	Phases []Phase `json:"phases"`

	hosts  int
	took   time.Duration
	failed int64 // requests without an answer
	busy   int64 // never sent, because all workers were busy
	late   int64 // never sent, because the process did not get to run
}

// Phase is what was measured in one phase.
type Phase struct {
	Name    string        `json:"name"`
	Results []Measurement `json:"results"`

	length time.Duration // of the measured window
}

// Measurement is of one algorithm in one phase. All are on the same traffic.
type Measurement struct {
	Algorithm string `json:"algorithm"`
	// OfferedPerS counts requests that were really sent.
	OfferedPerS float64 `json:"offered_per_s"`
	// AdmittedPerS counts those that the algorithm admitted, or would have.
	AdmittedPerS float64 `json:"admitted_per_s"`
	// IdealPerS is the limit, or what was offered if that is less.
	IdealPerS float64 `json:"ideal_per_s"`
}

// Ratio is what was admitted of the ideal; 1 is best, more exceeds the limit.
func (m Measurement) Ratio() float64 {
	if m.IdealPerS == 0 {
		return 0
	}
	return m.AdmittedPerS / m.IdealPerS
}

// measurement is of admitted and offered events in elapsed.
func measurement(algorithm string, limit, offered, admitted float64) Measurement {
	round := func(f float64) float64 { return math.Round(f*10) / 10 }
	return Measurement{algorithm, round(offered), round(admitted), round(math.Min(limit, offered))}
}

// put replaces the phase of p's name, or adds p.
func (r *Result) put(p Phase) {
	for i := range r.Phases {
		if r.Phases[i].Name == p.Name {
			r.Phases[i] = p
			return
		}
	}
	r.Phases = append(r.Phases, p)
}

// WriteJSON writes r as one object.
func (r Result) WriteJSON(w io.Writer) error {
	if r.Phases == nil {
		r.Phases = []Phase{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteSummary writes r as a table for people, with one closing sentence.
func (r Result) WriteSummary(w io.Writer) error {
	var b strings.Builder
	if len(r.Phases) == 0 {
		_, err := io.WriteString(w, "It ended before anything was measured.\n")
		return err
	}
	fmt.Fprintf(&b, "%d hosts, one limit of %.0f/s", r.hosts, r.LimitPerS)
	if r.took > 0 {
		fmt.Fprintf(&b, ", %s", r.took.Round(time.Second))
	}
	b.WriteString("\n\n  phase   algorithm         offered/s  admitted/s  of what the limit allows\n")
	for _, p := range r.Phases {
		name := p.Name
		for _, m := range p.Results {
			fmt.Fprintf(&b, "  %-6s  %-16s  %9.0f  %10.0f  %5.0f%%  %s\n",
				name, m.Algorithm, m.OfferedPerS, m.AdmittedPerS, 100*m.Ratio(), Bar(m.Ratio(), 17))
			name = ""
		}
	}
	if r.failed > 0 {
		fmt.Fprintf(&b, "\n%s got no answer from the killed host before the load balancer noticed.\n", count(r.failed, "request"))
	}
	if r.busy+r.late > 0 {
		text := fmt.Sprintf("%s never sent, because this machine was too busy (%d with answers, %d with other programs); the rates are of what was sent.",
			were(r.busy+r.late), r.busy, r.late)
		fmt.Fprintf(&b, "\n%s\n", wrap(text, 78))
	}
	fmt.Fprintf(&b, "\n%s\n", wrap(r.closing(), 78))
	_, err := io.WriteString(w, b.String())
	return err
}

// closing is the moral of all that was measured.
func (r Result) closing() string {
	whole := r.whole()
	parts := make([]string, len(whole))
	for i, m := range whole {
		name := m.Algorithm
		if name == "even" {
			name = "evenly divided limits"
		}
		if i == 0 {
			name += " admitted"
		}
		parts[i] = name + " " + percent(m.Ratio())
	}
	when := "over the whole story"
	if len(r.Phases) < len(Phases()) {
		names := make([]string, len(r.Phases))
		for i, p := range r.Phases {
			names[i] = p.Name
		}
		when = "while it was " + strings.Join(names, " and ")
	}
	return fmt.Sprintf("On the same traffic, %s of what the limit allows %s.", strings.Join(parts, ", "), when)
}

// whole is the mean of all phases, each as long as it was measured; one whose
// length is not known, as it was not played, counts as a second.
func (r Result) whole() []Measurement {
	var all []Measurement
	var length float64
	for _, p := range r.Phases {
		seconds := p.length.Seconds()
		if p.length == 0 {
			seconds = 1
		}
		length += seconds
		for i, m := range p.Results {
			if i == len(all) {
				all = append(all, Measurement{Algorithm: m.Algorithm})
			}
			all[i].OfferedPerS += m.OfferedPerS * seconds
			all[i].AdmittedPerS += m.AdmittedPerS * seconds
			all[i].IdealPerS += m.IdealPerS * seconds
		}
	}
	for i := range all {
		all[i].OfferedPerS /= length
		all[i].AdmittedPerS /= length
		all[i].IdealPerS /= length
	}
	return all
}

// percent is ratio in whole percents, or in tenths where it is so near 100
// that a whole percent would hide which side it is on.
func percent(ratio float64) string {
	tenths := math.Round(1000*ratio) / 10
	if tenths != 100 && math.Abs(tenths-100) < 1 {
		return fmt.Sprintf("%.1f%%", tenths)
	}
	return fmt.Sprintf("%.0f%%", 100*ratio)
}

// wrap breaks s between words into lines of at most width bytes, where words
// allow it.
func wrap(s string, width int) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(s) {
		switch {
		case i == 0:
		case line+1+len(word) > width:
			b.WriteByte('\n')
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

func were(n int64) string {
	if n == 1 {
		return "1 request was"
	}
	return count(n, "request") + " were"
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Bar draws ratio, of 1, width cells wide. It is legible without colour.
func Bar(ratio float64, width int) string {
	full := Filled(ratio, width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// Filled is how many of a bar's cells are full.
func Filled(ratio float64, width int) int {
	if width <= 0 || !(ratio > 0) {
		return 0
	}
	return int(math.Round(math.Min(ratio, 1) * float64(width)))
}

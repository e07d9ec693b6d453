// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/internal/demo"
	"github.com/headgate/headgate/internal/goldentest"
)

// frame is one of the end, with all that a view has.
func frame() demo.Frame {
	f := demo.Frame{
		Headline: "host-3 is off the list of members; host-5 decides for its key now",
		Notice:   "host-2: an owner does not answer; its keys keep their grants to the end of the lease, then fall back (host-3)",
		Elapsed:  48 * time.Second, Total: time.Minute, Round: 1,
		Phase: 2, Progress: 0.2, Measuring: true,
		Limit: 500, Offered: 1000, Failed: 8,
		Algorithms: []demo.AlgorithmRow{
			{Name: "even", Admitted: 184, Ideal: 500},
			{Name: "request-weighted", Admitted: 487, Ideal: 500},
			{Name: "auto", Answers: true, Admitted: 498, Ideal: 500},
		},
	}
	for i := range 48 {
		f.Algorithms[0].History = append(f.Algorithms[0].History, 0.4)
		f.Algorithms[1].History = append(f.Algorithms[1].History, float64(i%13)/12)
		f.Algorithms[2].History = append(f.Algorithms[2].History, 1-float64(i%2)/5)
	}
	for i := range 5 {
		f.Hosts = append(f.Hosts, demo.HostRow{
			Name: fmt.Sprintf("host-%d", i+1), Offered: 25.6, Admitted: []float64{25.6, 12.8, 24.9},
			Weight: 0.026, InForce: 13, State: demo.StateGrant,
		})
	}
	f.Hosts[1].State, f.Hosts[1].InForce = demo.StateFallback, 125
	f.Hosts[2] = demo.HostRow{Name: "host-3", Admitted: []float64{0, 0, 0}, State: demo.StateKilled}
	f.Hosts[3] = demo.HostRow{Name: "host-4", Hot: true, Offered: 923, Admitted: []float64{107, 450, 423}, Weight: 0.92, InForce: 461, State: demo.StateGrant}
	f.Hosts[4].Decides = true
	return f
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestViewFitsTheTerminal(t *testing.T) {
	endless := frame()
	endless.Total, endless.Notice, endless.Measuring, endless.Phase, endless.Failed = 0, "", false, 0, 0
	for _, c := range []struct {
		name          string
		frame         demo.Frame
		width, height int
	}{
		{"80x24", frame(), 80, 24},
		{"120x40", frame(), 120, 40},
		{"80x16", frame(), 80, 16},
		{"endless", endless, 80, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Render(c.frame, c.width, c.height, true)
			lines := strings.Split(got, "\n")
			if len(lines) > c.height {
				t.Errorf("%d rows, more than %d", len(lines), c.height)
			}
			for i, line := range lines {
				if w := lipgloss.Width(line); w > c.width {
					t.Errorf("row %d has %d columns, more than %d: %s", i, w, c.width, line)
				}
				lines[i] = strings.TrimRight(escapes.ReplaceAllString(line, ""), " ")
			}
			got = strings.Join(lines, "\n") + "\n"
			goldentest.Same(t, filepath.Join("testdata", c.name+".golden"), got)
		})
	}
}

func TestNoSizeOrFrameBreaksTheView(t *testing.T) {
	for _, f := range []demo.Frame{{}, frame()} {
		for width := range 200 {
			for _, height := range []int{0, 1, 10, 24, 60} {
				for line := range strings.SplitSeq(Render(f, width, height, false), "\n") {
					if w := lipgloss.Width(line); w > width && width > 0 {
						t.Fatalf("%d columns at width %d", w, width)
					}
				}
			}
		}
	}
}

func TestDarkAndLightHaveOtherColoursAndTheSameText(t *testing.T) {
	dark, light := Render(frame(), 80, 24, true), Render(frame(), 80, 24, false)
	if dark == light {
		t.Error("the colours are the same")
	}
	if escapes.ReplaceAllString(dark, "") != escapes.ReplaceAllString(light, "") {
		t.Error("the text is not the same")
	}
}

func TestTheOwnerIsMarkedFromEightyColumnsOn(t *testing.T) {
	for width := 80; width < 200; width++ {
		text := escapes.ReplaceAllString(Render(frame(), width, 24, true), "")
		if !strings.Contains(text, "grant     owner") {
			t.Fatalf("at width %d nobody is marked:\n%s", width, text)
		}
	}
}

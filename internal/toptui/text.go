// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"math"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/internal/admin/api/busiest"
)

// rate is v per second, in at most six characters.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.05:
		return "<0.1"
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 99_999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	for _, unit := range []string{"k", "M", "G", "T"} {
		if v /= 1000; v < 999.5 {
			return strconv.FormatFloat(v, 'f', 0, 64) + unit
		}
	}
	return ">999T"
}

// percent is part of 1 for people; a dash if there is none.
func percent(part *float64) string {
	if part == nil {
		return "-"
	}
	if *part >= 99.995 {
		return ">9999%"
	}
	return strconv.FormatFloat(100**part, 'f', 0, 64) + "%"
}

// span is d in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(max(d, 0)/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

var levels = []rune(" ▁▂▃▄▅▆▇█")

// spark draws what was asked for of k, as cells of which the highest is full. A cell is the
// highest period in it. Anything above nothing can be seen.
func spark(k *busiest.Key, cells int) string {
	n := max(len(k.RecentAllowed), len(k.RecentRejected))
	at := func(values []float64, i int) float64 {
		if i < len(values) {
			return values[i]
		}
		return 0
	}
	heights, most := make([]float64, cells), 0.0
	for i := range n {
		c := i * cells / n
		heights[c] = max(heights[c], at(k.RecentAllowed, i)+at(k.RecentRejected, i))
		most = max(most, heights[c])
	}
	drawn := make([]rune, cells)
	for i, h := range heights {
		level := 0
		if h > 0 {
			level = min(max(int(math.Ceil(h/most*8)), 1), 8)
		}
		drawn[i] = levels[level]
	}
	return string(drawn)
}

// fit makes s exactly width cells wide.
func fit(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-lipgloss.Width(s)))
}

// cut shortens s to at most width cells.
func cut(s string, width int) string {
	if lipgloss.Width(s) <= width {
		return s
	}
	if width < 2 {
		return strings.Repeat("…", max(width, 0))
	}
	return lipgloss.NewStyle().MaxWidth(width-1).Render(s) + "…"
}

// right is s at the right of width cells.
func right(s string, width int) string {
	s = cut(s, width)
	return strings.Repeat(" ", max(0, width-lipgloss.Width(s))) + s
}

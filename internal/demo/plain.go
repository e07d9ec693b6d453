// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Plain writes frames as lines, one per second, for pipes and logs. It is for
// one goroutine.
type Plain struct {
	w        io.Writer
	next     time.Duration
	page     string
	headline string
	notice   string
}

// NewPlain returns a Plain that writes to w.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w} }

// Show writes f if it is time. What is new in words is written at once.
func (p *Plain) Show(f Frame) {
	if f.Page != p.page {
		p.page = f.Page
		fmt.Fprintf(p.w, "%s  see it in a browser: %s\n", clock(f.Elapsed), f.Page)
	}
	if f.Headline != p.headline {
		p.headline = f.Headline
		fmt.Fprintf(p.w, "%s  == %s: %s\n", clock(f.Elapsed), Phases()[f.Phase], f.Headline)
	}
	if f.Notice != p.notice {
		p.notice = f.Notice
		fmt.Fprintf(p.w, "%s  log %s\n", clock(f.Elapsed), f.Notice)
	}
	if f.Elapsed < p.next {
		return
	}
	p.next = f.Elapsed.Truncate(time.Second) + time.Second
	parts := make([]string, 0, len(f.Algorithms)+1)
	for i, a := range f.Algorithms {
		name := a.Name
		if i == 0 {
			name += " admits"
		}
		parts = append(parts, fmt.Sprintf("%s %4.0f/s %3.0f%%", name, a.Admitted, Percent(a.Admitted, a.Ideal)))
	}
	warming := ""
	if !f.Measuring {
		warming = "   warming up"
	}
	fmt.Fprintf(p.w, "%s  offered %4.0f/s   %s%s\n", clock(f.Elapsed), f.Offered, strings.Join(parts, "   "), warming)
}

// Percent that part is of whole; 0 when there is no whole.
func Percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}

// clock is d as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

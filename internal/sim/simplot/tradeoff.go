// SPDX-License-Identifier: Apache-2.0

package simplot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Tradeoff is what several algorithms paid and rejected in one scenario.
type Tradeoff struct {
	Name   string
	Points []Point
}

// Point is one algorithm of a Tradeoff.
type Point struct {
	Algorithm string
	Calls     float64 // per host and second
	Rejects   float64 // false rejects, % of what was offered
}

// Sizes of a page of tradeoffs. All panels have the same scales.
const (
	tradeoffColumns = 4
	tradeoffWidth   = 2.7 * vg.Inch
	tradeoffHeight  = 1.75 * vg.Inch
	dot             = 3.5

	fewestCalls, mostCalls = 0.1, 100. // ends of the scale, which is logarithmic
)

// rejectTicks are the labels of false rejects, whose scale is of square roots: so
// that both 1% and 50% can be read.
var rejectTicks = []float64{0, 1, 5, 10, 20, 40, 60}

// SaveTradeoffs draws a panel for each of all into a file.
func SaveTradeoffs(file, title, note string, all []Tradeoff) error {
	return save(file, func(w io.Writer, format string) error { return WriteTradeoffs(w, format, title, note, all) })
}

// WriteTradeoffs draws a panel for each of all, as "svg" or "png": false rejects
// above calls, and a point for each algorithm.
func WriteTradeoffs(w io.Writer, format, title, note string, all []Tradeoff) error {
	if len(all) == 0 {
		return fmt.Errorf("there is nothing to draw")
	}
	rows := (len(all) + tradeoffColumns - 1) / tradeoffColumns
	height := headHeight + vg.Length(rows)*tradeoffHeight + 0.25*vg.Inch
	return write(w, format, vg.Length(tradeoffColumns)*tradeoffWidth+2*margin, height, func(dc draw.Canvas) {
		top := dc.Max.Y
		text(dc, dc.Min.X+margin, top-0.14*vg.Inch, 15, true, ink, left, title)
		text(dc, dc.Min.X+margin, top-0.38*vg.Inch, 9.5, false, faint, left, note)
		x := dc.Max.X - margin
		for i, p := range slices.Backward(all[0].Points) {
			name := p.Algorithm
			x -= vg.Length(len(name))*4.6 + 22
			circle(dc, vg.Point{X: x, Y: top - 0.14*vg.Inch}, hostColours[i])
			text(dc, x+8, top-0.14*vg.Inch, 9, false, ink, left, name)
		}
		for i, t := range all {
			panel := dc
			panel.Min.X += margin + vg.Length(i%tradeoffColumns)*tradeoffWidth
			panel.Max.X = panel.Min.X + tradeoffWidth
			panel.Max.Y = top - headHeight - vg.Length(i/tradeoffColumns)*tradeoffHeight
			panel.Min.Y = panel.Max.Y - tradeoffHeight
			t.draw(panel)
		}
		text(dc, dc.Min.X+margin+0.3*vg.Inch, dc.Min.Y+0.12*vg.Inch, 8.5, false, faint, left,
			"across: calls per host and second; up: false rejects, % of what is offered")
	})
}

func (t Tradeoff) draw(dc draw.Canvas) {
	area := dc
	area.Min.X += 0.3 * vg.Inch
	area.Max.X -= 0.15 * vg.Inch
	area.Min.Y += 0.25 * vg.Inch
	area.Max.Y -= 0.25 * vg.Inch
	part := func(low, high vg.Length, of float64) vg.Length {
		return low + (high-low)*vg.Length(math.Min(math.Max(of, 0), 1))
	}
	at := func(calls, rejects float64) vg.Point {
		return vg.Point{
			X: part(area.Min.X, area.Max.X, math.Log(calls/fewestCalls)/math.Log(mostCalls/fewestCalls)),
			Y: part(area.Min.Y, area.Max.Y, math.Sqrt(rejects/rejectTicks[len(rejectTicks)-1])),
		}
	}
	thin := draw.LineStyle{Color: grid, Width: 0.6}
	for _, v := range rejectTicks {
		y := at(1, v).Y
		area.StrokeLine2(thin, area.Min.X, y, area.Max.X, y)
		text(area, area.Min.X-4, y, 7, false, faint, right, label(v))
	}
	for calls := fewestCalls; calls <= mostCalls*1.01; calls *= 10 {
		x := at(calls, 0).X
		area.StrokeLine2(thin, x, area.Min.Y, x, area.Max.Y)
		text(area, x, area.Min.Y-8, 7, false, faint, centre, label(calls))
	}
	text(area, area.Min.X, area.Max.Y+8, 9, true, ink, left, t.Name)
	for i, p := range t.Points {
		circle(area, at(p.Calls, p.Rejects), hostColours[i%len(hostColours)])
	}
}

// circle draws a point.
func circle(dc draw.Canvas, at vg.Point, c color.Color) {
	dc.DrawGlyph(draw.GlyphStyle{Color: c, Radius: dot, Shape: draw.CircleGlyph{}}, at)
}

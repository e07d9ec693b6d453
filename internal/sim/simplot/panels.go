// SPDX-License-Identifier: Apache-2.0

package simplot

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/headgate/headgate/internal/sim/measure"
)

// frame is where the data of a panel goes.
type frame struct {
	draw.Canvas
	p    *plot.Plot
	x, y func(float64) vg.Length
}

// open draws axes and grid, and leaves room for a legend.
func open(dc draw.Canvas, p *plot.Plot, top vg.Length, times bool) frame {
	area := dc
	area.Max.X -= legendWidth
	area.Max.Y -= top
	area.Min.X += axisWidth
	area.Min.Y += 0.1 * vg.Inch
	if times {
		area.Min.Y += 0.18 * vg.Inch
	}
	x, y := p.Transforms(&area)
	f := frame{area, p, x, y}
	thin := draw.LineStyle{Color: grid, Width: 0.6}
	for _, t := range p.Y.Tick.Marker.Ticks(0, p.Y.Max) {
		at := y(t.Value)
		area.StrokeLine2(thin, area.Min.X, at, area.Max.X, at)
		text(area, area.Min.X-5, at, 8, false, faint, right, t.Label)
	}
	for _, t := range p.X.Tick.Marker.Ticks(0, p.X.Max) {
		area.StrokeLine2(thin, x(t.Value), area.Min.Y, x(t.Value), area.Min.Y-3)
		if times {
			text(area, x(t.Value), area.Min.Y-9, 8, false, faint, centre, t.Label)
		}
	}
	return f
}

// area fills between two lines of values per second, given at whole seconds
// from `at` on.
func (f frame) area(c color.Color, low, high []float64) {
	var pts []vg.Point
	for s, v := range high {
		pts = append(pts, f.point(float64(s), v), f.point(float64(s+1), v))
	}
	for s, v := range slices.Backward(low) {
		pts = append(pts, f.point(float64(s+1), v), f.point(float64(s), v))
	}
	f.FillPolygon(c, pts)
}

// point is clamped to the panel.
func (f frame) point(second, v float64) vg.Point {
	return vg.Point{X: f.x(math.Min(second, f.p.X.Max)), Y: f.y(math.Min(v, f.p.Y.Max))}
}

// steps draws values that hold for a second each.
func (f frame) steps(st draw.LineStyle, values []float64) {
	var pts []vg.Point
	for s, v := range values {
		pts = append(pts, f.point(float64(s), v), f.point(float64(s+1), v))
	}
	f.StrokeLines(st, pts)
}

// legend writes a title and entries to the right of the panel, from the top;
// more than six in two columns.
func (f frame) legend(title string, entries []entry) {
	const swatch, row = 12, 11.5
	first, y := f.Max.X+0.16*vg.Inch, f.Max.Y-5
	if title != "" {
		text(f.Canvas, first, y, 8, false, faint, left, title)
		y -= row
	}
	top, rows := y, len(entries)
	if rows > 6 {
		rows = (rows + 1) / 2
	}
	for i, e := range entries {
		x := first + vg.Length(i/rows)*0.68*vg.Inch
		y := top - vg.Length(i%rows)*row
		if e.box {
			f.FillPolygon(e.colour, []vg.Point{{X: x, Y: y - 4}, {X: x + swatch, Y: y - 4}, {X: x + swatch, Y: y + 4}, {X: x, Y: y + 4}})
		} else {
			f.StrokeLine2(e.line, x, y, x+swatch, y)
		}
		text(f.Canvas, x+swatch+5, y, 8, false, ink, left, e.text)
	}
}

type entry struct {
	text   string
	colour color.Color
	box    bool
	line   draw.LineStyle
}

var (
	passedLine = draw.LineStyle{Color: passed, Width: 1.4}
	limitLine  = draw.LineStyle{Color: limited, Width: 1.1, Dashes: []vg.Length{5, 3}}
	markLine   = draw.LineStyle{Color: marked, Width: 0.8, Dashes: []vg.Length{2, 2}}
)

// flow draws what was offered, what one bucket would have admitted, what was
// admitted, and the limit.
func (g page) flow(dc draw.Canvas, p panel) {
	text(dc, dc.Min.X, dc.Max.Y-0.1*vg.Inch, 10, true, ink, left, p.title)
	f := open(dc, g.axes(g.most), 0.42*vg.Inch, !p.weighted())
	n := len(p.key.Seconds)
	column := func(value func(measure.Second) float64) []float64 {
		values := make([]float64, n)
		for i, s := range p.key.Seconds {
			values[i] = value(s)
		}
		return values
	}
	zero := make([]float64, n)
	oracle := column(func(s measure.Second) float64 { return float64(s.Oracle) })
	sent := column(func(s measure.Second) float64 { return float64(s.Offered) })
	f.area(offered, zero, sent)
	if beyond := slices.Max(sent); beyond > g.most {
		text(f.Canvas, f.Max.X-4, f.Max.Y-8, 8, false, faint, right, "offered goes up to "+label(beyond))
	}
	f.area(perfect, zero, oracle)
	f.marks(p.result.Marks, true)
	f.steps(limitLine, column(func(s measure.Second) float64 { return s.Limit }))
	f.steps(passedLine, column(func(s measure.Second) float64 { return float64(s.Admitted) }))
	f.legend("events per second", []entry{
		{text: "offered", colour: offered, box: true},
		{text: "one perfect bucket", colour: perfect, box: true},
		{text: "admitted", line: passedLine},
		{text: "limit", line: limitLine},
	})
}

// marks draws a line at each mark. Its text stands above, once for each.
func (f frame) marks(marks []measure.Mark, named bool) {
	seen := make(map[string]bool)
	free := f.Min.X // where the next text may begin
	for _, m := range marks {
		x := f.x(m.At.Seconds())
		f.StrokeLine2(markLine, x, f.Min.Y, x, f.Max.Y)
		if !named || seen[m.Text] {
			continue
		}
		seen[m.Text] = true
		y, align, long := f.Max.Y+6, left, vg.Length(len(m.Text))*4.2
		if x+long > f.Max.X {
			align = right
		}
		if align == left && x < free || align == right && x-long < free {
			y += 10
		} else {
			free = x + long
		}
		text(f.Canvas, x, y, 8, false, marked, align, m.Text)
	}
}

// weights draws which part of the limit each host's bucket refilled with, one
// on top of the other. More than 1 is lent twice.
func (g page) weights(dc draw.Canvas, p panel) {
	rows := p.key.Weights
	n := len(rows)
	top := 1.0
	for _, row := range rows {
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		top = math.Max(top, sum)
	}
	f := open(dc, g.axes(math.Min(top, 3)*1.05), 0.02*vg.Inch, true)
	low := make([]float64, n)
	stack := func(c color.Color, hosts []int) {
		high := slices.Clone(low)
		for s, row := range rows {
			for _, h := range hosts {
				high[s] += row[h]
			}
		}
		f.area(c, low, high)
		low = high
	}
	shown, others := biggest(rows, len(hostColours))
	var entries []entry
	for i, h := range shown {
		stack(hostColours[i], []int{h})
		entries = append(entries, entry{text: shortened(p.result.Hosts[h], 9), colour: hostColours[i], box: true})
	}
	if len(others) > 0 {
		stack(rest, others)
		entries = append(entries, entry{text: fmt.Sprintf("%d others", len(others)), colour: rest, box: true})
	}
	whole := make([]float64, n)
	for i := range whole {
		whole[i] = 1
	}
	f.steps(limitLine, whole)
	f.marks(p.result.Marks, false)
	f.legend("part of the limit", entries)
}

// biggest splits the hosts into the n that had most at any time, by number,
// and the others.
func biggest(rows [][]float64, n int) (shown, others []int) {
	if len(rows) == 0 {
		return nil, nil
	}
	most := make([]float64, len(rows[0]))
	for _, row := range rows {
		for h, v := range row {
			most[h] = math.Max(most[h], v)
		}
	}
	order := make([]int, len(most))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(most[b], most[a]) })
	n = min(n, len(order))
	shown, others = order[:n:n], order[n:]
	slices.Sort(shown)
	return shown, others
}

// SPDX-License-Identifier: Apache-2.0

package simplot

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
)

// Sizes on paper.
const (
	width         = 11 * vg.Inch
	flowHeight    = 2.2 * vg.Inch
	weightsHeight = 1.3 * vg.Inch
	headHeight    = 0.62 * vg.Inch
	margin        = 0.18 * vg.Inch
	legendWidth   = 1.5 * vg.Inch
	axisWidth     = 0.45 * vg.Inch

	maxKeys = 3 // panels of one result
)

// CheckFile reports whether a file's name says what to draw: .svg or .png.
func CheckFile(file string) error {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("%q ends in neither .svg nor .png: choose one", file)
}

// Save draws results of one scenario, with Weights, into a file.
func Save(file string, sc *scenario.Scenario, results []*measure.Result) error {
	return save(file, func(w io.Writer, format string) error { return Write(w, format, sc, results) })
}

// save has write write a file in the format that its name ends in.
func save(file string, write func(w io.Writer, format string) error) error {
	if err := CheckFile(file); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := write(f, strings.ToLower(filepath.Ext(file))[1:]); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Write draws results of one scenario, as "svg" or "png".
func Write(w io.Writer, format string, sc *scenario.Scenario, results []*measure.Result) error {
	panels := panelsOf(results)
	if len(panels) == 0 {
		return fmt.Errorf("there is nothing to draw")
	}
	height := headHeight + margin
	for _, p := range panels {
		height += p.height()
	}
	return write(w, format, width, height, func(dc draw.Canvas) {
		page{sc: sc, most: most(panels), end: sc.Duration.Seconds()}.draw(dc, panels)
	})
}

// write has paint draw on a white page, and writes it as "svg" or "png".
func write(w io.Writer, format string, width, height vg.Length, paint func(draw.Canvas)) error {
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case "svg":
		canvas = vgsvg.New(width, height)
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(110), vgimg.UseBackgroundColor(white))}
	default:
		return fmt.Errorf("there is no format %q: use svg or png", format)
	}
	dc := draw.New(canvas)
	dc.SetColor(white)
	dc.Fill(dc.Path())
	paint(dc)
	_, err := canvas.WriteTo(w)
	return err
}

// panel is one key of one result.
type panel struct {
	result *measure.Result
	key    *measure.Key
	title  string
}

func panelsOf(results []*measure.Result) []panel {
	var panels []panel
	for _, r := range results {
		for i := range r.Keys {
			if i == maxKeys {
				break
			}
			k := &r.Keys[i]
			title := fmt.Sprintf("%s:  utilisation %.1f%%   false rejects %.2f%%   over %.1f%%", k.Algorithm, k.UtilisationPct, k.FalseRejectPct, k.OverPct)
			if !math.IsNaN(k.SettleS) {
				title += fmt.Sprintf("   settles in %.1f s", k.SettleS)
			}
			title += fmt.Sprintf("   %.2f reports/host/s", k.ReportsPerHostS)
			if len(r.Keys) > 1 {
				title = k.Key + "   " + title
			}
			panels = append(panels, panel{r, k, title})
		}
	}
	return panels
}

func (p panel) height() vg.Length {
	h := flowHeight
	if p.weighted() {
		h += weightsHeight
	}
	return h
}

// weighted reports whether there are weights to draw.
func (p panel) weighted() bool { return len(p.key.Weights) > 0 }

// most is the top of the scale of events/s: what is offered may be beyond.
func most(panels []panel) float64 {
	offered, rest := 0.0, 0.0
	for _, p := range panels {
		for _, s := range p.key.Seconds {
			offered = math.Max(offered, float64(s.Offered))
			rest = math.Max(rest, math.Max(float64(max(s.Admitted, s.Oracle)), s.Limit))
		}
	}
	return 1.08 * math.Max(math.Min(offered, 2*rest), rest)
}

// page is what all panels share.
type page struct {
	sc   *scenario.Scenario
	most float64 // events/s at the top of the scale
	end  float64 // seconds
}

// draw puts everything on the page, from top to bottom.
func (g page) draw(dc draw.Canvas, panels []panel) {
	top := dc.Max.Y
	text(dc, dc.Min.X+margin, top-0.14*vg.Inch, 15, true, ink, left, g.sc.Name)
	text(dc, dc.Min.X+margin, top-0.38*vg.Inch, 9.5, false, faint, left, g.sc.Description)
	top -= headHeight
	for _, p := range panels {
		g.flow(cut(dc, top, flowHeight), p)
		top -= flowHeight
		if p.weighted() {
			g.weights(cut(dc, top, weightsHeight), p)
			top -= weightsHeight
		}
	}
}

// cut is the strip of the page below top.
func cut(dc draw.Canvas, top, height vg.Length) draw.Canvas {
	dc.Max.Y, dc.Min.Y = top, top-height
	dc.Min.X += margin
	dc.Max.X -= margin
	return dc
}

// axes returns a plot with time on its x axis, up to most on the other.
func (g page) axes(most float64) *plot.Plot {
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, g.end, 0, most
	p.X.Tick.Marker = timeTicks{}
	p.Y.Tick.Marker = amountTicks{}
	return p
}

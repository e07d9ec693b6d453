// SPDX-License-Identifier: Apache-2.0

package simplot

import (
	"fmt"
	"image/color"
	"math"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	fonttext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

var (
	white   = rgb(0xffffff)
	ink     = rgb(0x1f2933)
	faint   = rgb(0x66717d)
	grid    = rgb(0xe4e7eb)
	offered = rgb(0xe9ecef)
	perfect = rgb(0xb9d4ea)
	passed  = rgb(0x0b5fa5)
	limited = rgb(0xd1495b)
	marked  = rgb(0x7b8794)
	rest    = rgb(0xd5dae0)

	// hostColours are told apart by people who see colours differently too.
	hostColours = []color.NRGBA{
		rgb(0x4477aa), rgb(0xee6677), rgb(0x228833), rgb(0xccbb44), rgb(0x66ccee),
		rgb(0xaa3377), rgb(0xee8866), rgb(0x44bb99), rgb(0x99a0ff), rgb(0x997700),
	}
)

type side float64

const (
	left   side = 0
	centre side = -0.5
	right  side = -1
)

// text writes s, with the middle of its line at y.
func text(dc draw.Canvas, x, y vg.Length, size float64, bold bool, c color.Color, align side, s string) {
	st := draw.TextStyle{
		Color:   c,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)},
		XAlign:  draw.XAlignment(align),
		YAlign:  draw.YCenter,
		Handler: fonttext.Plain{Fonts: font.DefaultCache},
	}
	if bold {
		st.Font.Weight = stdfont.WeightBold
	}
	dc.FillText(st, vg.Point{X: x, Y: y}, s)
}

// timeTicks are round numbers of seconds or minutes, about ten of them.
type timeTicks struct{}

// Ticks implements plot.Ticker.
func (timeTicks) Ticks(from, to float64) []plot.Tick {
	steps := []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 6 * 3600, 24 * 3600}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if (to-from)/s <= 13 {
			step = s
			break
		}
	}
	var ticks []plot.Tick
	for v := from; v <= to+1e-9; v += step {
		label := fmt.Sprintf("%g s", v)
		switch {
		case v == 0:
			label = "0"
		case step >= 3600:
			label = fmt.Sprintf("%g h", v/3600)
		case step >= 60:
			label = fmt.Sprintf("%g min", v/60)
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// amountTicks are three to five round numbers.
type amountTicks struct{}

// Ticks implements plot.Ticker.
func (amountTicks) Ticks(_, to float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10(to))))
	switch n := to / step; {
	case n < 1.5:
		step /= 4
	case n < 3:
		step /= 2
	case n > 6:
		step *= 2
	}
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= to; i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return ticks
}

func label(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}

// shortened is s, cut to n characters.
func shortened(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

package plots

import (
	"math"
	"strconv"

	"leasehold/lab/internal/svg"
)

// Bar is one bar of Bars.
type Bar struct {
	Label string
	Value float64
	Text  string // beside the bar
	Us    bool
}

// What a plot of bars takes, in pixels.
const (
	barsWidth         = 760
	barSize, barRow   = 13, 20
	barHeight         = 13
	barsTop, barsFoot = 40, 56
)

// Bars draws lying bars on a logarithmic axis, the first on top, to base-light.svg and
// base-dark.svg. An empty Label with no value is a gap.
func Bars(base, title, axis string, bars []Bar) error {
	return svg.Write(base, func(t svg.Theme) *svg.Canvas { return drawBars(t, title, axis, bars) })
}

func drawBars(t svg.Theme, title, axis string, bars []Bar) *svg.Canvas {
	low, high := decades(bars)
	left, right := 0.0, 0.0
	for _, b := range bars {
		left, right = max(left, svg.Width(b.Label, barSize)), max(right, svg.Width(b.Text, barSize))
	}
	left, right = left+16, barsWidth-16-right
	x := func(v float64) float64 { return left + (right-left)*math.Log10(v/low)/math.Log10(high/low) }
	bottom := float64(barsTop + barRow*len(bars))

	c := svg.New(barsWidth, bottom+barsFoot, t)
	c.Text(barsWidth/2, 20, 15, svg.Middle, t.Ink, title)
	for at := low; at < high*1.01; at *= 10 {
		c.Line(x(at), bottom, x(at), bottom+6, t.Grid)
		c.Text(x(at), bottom+22, barSize, svg.Middle, t.Ink, strconv.FormatFloat(at, 'g', 3, 64))
	}
	c.Line(left, bottom, x(high), bottom, t.Grid)
	c.Text((left+right)/2, bottom+44, barSize, svg.Middle, t.Ink, axis)
	for i, b := range bars {
		if b.Value <= 0 {
			continue
		}
		top := float64(barsTop + barRow*i)
		fill := t.Others[0]
		if b.Us {
			fill = t.Us
		}
		c.Text(left-8, top+barHeight-2, barSize, svg.End, t.Ink, b.Label)
		c.Box(left, top, x(b.Value)-left, barHeight, fill, fill)
		c.Text(x(b.Value)+6, top+barHeight-2, barSize, svg.Start, t.Ink, b.Text)
	}
	return c
}

// decades are the powers of ten below and above all bars.
func decades(bars []Bar) (low, high float64) {
	least, most := math.Inf(1), 0.0
	for _, b := range bars {
		if b.Value > 0 {
			least, most = min(least, b.Value), max(most, b.Value)
		}
	}
	return math.Pow(10, math.Ceil(math.Log10(least))-1), math.Pow(10, math.Ceil(math.Log10(most)))
}

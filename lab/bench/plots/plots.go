// Package plots draws what the programs of this module measured, as SVG: each
// drawing twice, for pages with light and with dark ground.
package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Theme is the colours of one ground.
type Theme struct {
	Name      string
	Ink, Grid color.Color
	Us        color.Color   // leasehold
	Others    []color.Color // in turn
}

// Themes are both grounds. The ground itself is left clear.
func Themes() []Theme {
	return []Theme{
		{
			Name: "light", Ink: color.RGBA{0x1f, 0x23, 0x28, 0xff}, Grid: color.RGBA{0xd1, 0xd9, 0xe0, 0xff}, Us: color.RGBA{0x0b, 0x6e, 0x4f, 0xff},
			Others: []color.Color{color.RGBA{0x8c, 0x95, 0x9f, 0xff}, color.RGBA{0xb5, 0x5a, 0x30, 0xff}, color.RGBA{0x5b, 0x5f, 0xc7, 0xff}},
		},
		{
			Name: "dark", Ink: color.RGBA{0xe6, 0xed, 0xf3, 0xff}, Grid: color.RGBA{0x3d, 0x44, 0x4d, 0xff}, Us: color.RGBA{0x3f, 0xb9, 0x8a, 0xff},
			Others: []color.Color{color.RGBA{0x76, 0x83, 0x90, 0xff}, color.RGBA{0xe0, 0x8b, 0x5c, 0xff}, color.RGBA{0x9a, 0x9c, 0xf0, 0xff}},
		},
	}
}

// Apply gives a plot the colours of a theme.
func (t Theme) Apply(p *plot.Plot) {
	p.BackgroundColor = nil
	texts := []*draw.TextStyle{&p.Title.TextStyle, &p.Legend.TextStyle}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.Color = t.Grid, t.Grid
		texts = append(texts, &axis.Label.TextStyle, &axis.Tick.Label)
	}
	for _, text := range texts {
		text.Color, text.Font.Variant = t.Ink, "Sans"
	}
}

// Write draws a plot once for each theme, to base-light.svg and base-dark.svg.
func Write(base string, width, height vg.Length, make func(Theme) *plot.Plot) error {
	for _, theme := range Themes() {
		p := make(theme)
		theme.Apply(p)
		canvas := vgsvg.New(width, height)
		p.Draw(draw.New(canvas))
		var b bytes.Buffer
		if _, err := canvas.WriteTo(&b); err != nil {
			return err
		}
		// Arial and Helvetica are as wide; few readers have Liberation.
		svg := bytes.ReplaceAll(b.Bytes(), []byte("font-suite:Liberation Sans"), []byte("font-suite:Liberation Sans, Arial, Helvetica, sans-serif"))
		if err := os.WriteFile(fmt.Sprintf("%s-%s.svg", base, theme.Name), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Bar is one bar of Bars.
type Target struct {
	Label string
	Value float64
	Text  string // beside the bar
	Us    bool
}

// Bars draws lying bars on a logarithmic axis, the first on top. An empty Label
// with no value is a gap.
func Targets(base, title, axis string, bars []Target) error {
	height := vg.Length(len(bars))*14 + 70
	return Write(base, 560, height, func(t Theme) *plot.Plot {
		p := plot.New()
		p.Title.Text, p.X.Label.Text = title, axis
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		b := lying{bars: bars, theme: t, font: p.X.Tick.Label}
		var ticks []plot.Tick
		for i, bar := range bars {
			ticks = append(ticks, plot.Tick{Value: b.row(i), Label: bar.Label})
		}
		p.Y.Tick.Marker = plot.ConstantTicks(ticks)
		p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
		p.Add(b)
		return p
	})
}

// lying is the bars: gonum's begin at zero, which no logarithmic axis has.
type lying struct {
	bars  []Target
	theme Theme
	font  draw.TextStyle
}

func (l lying) row(i int) float64 { return float64(len(l.bars) - 1 - i) }

// Plot is that of plot.Plotter.
func (l lying) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	l.font.Color, l.font.Font.Variant, l.font.YAlign = l.theme.Ink, "Sans", draw.YCenter
	l.font.XAlign = draw.XLeft
	for i, bar := range l.bars {
		if bar.Value <= 0 {
			continue
		}
		fill := l.theme.Others[0]
		if bar.Us {
			fill = l.theme.Us
		}
		left, right, middle := x(p.X.Min), x(bar.Value), y(l.row(i))
		c.FillPolygon(fill, []vg.Point{{X: left, Y: middle - 5}, {X: right, Y: middle - 5}, {X: right, Y: middle + 5}, {X: left, Y: middle + 5}})
		c.FillText(l.font, vg.Point{X: right + 4, Y: middle}, bar.Text)
	}
}

// DataRange is that of plot.DataRanger: from a power of ten below all, to one that
// leaves room for the texts.
func (l lying) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = 1e300, 0
	for _, bar := range l.bars {
		if bar.Value > 0 {
			xmin, xmax = min(xmin, bar.Value), max(xmax, bar.Value)
		}
	}
	low := 1e-9
	for low*10 < xmin {
		low *= 10
	}
	high := low
	for high < xmax*1.5 {
		high *= 10
	}
	return low, high, -0.5, float64(len(l.bars)) - 0.5
}

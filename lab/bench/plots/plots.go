// Package plots draws what the programs of this module measured, as SVG: each
// drawing twice, for pages with light and with dark ground.
package plots

import (
	"bytes"
	"fmt"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"leasehold/lab/internal/svg"
)

// apply gives a plot the colours of a theme.
func apply(t svg.Theme, p *plot.Plot) {
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

// margin is around a plot: gonum leaves a title as much room as its own font needs, and
// others are taller.
const margin = 8

// Write draws a plot once for each theme, to base-light.svg and base-dark.svg.
func Write(base string, width, height vg.Length, make func(svg.Theme) *plot.Plot) error {
	for _, theme := range svg.Themes() {
		p := make(theme)
		apply(theme, p)
		canvas := vgsvg.New(width, height)
		p.Draw(draw.New(canvas))
		var b bytes.Buffer
		if _, err := canvas.WriteTo(&b); err != nil {
			return err
		}
		if err := os.WriteFile(fmt.Sprintf("%s-%s.svg", base, theme.Name), finish(b.Bytes(), width, height), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// finish gives a plot its margin, and fonts that readers have: Arial and Helvetica are as
// wide as the Liberation Sans that gonum reckons with.
func finish(plot []byte, width, height vg.Length) []byte {
	plot = bytes.ReplaceAll(plot, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans, Arial, Helvetica, sans-serif"))
	size := func(w, h, x, y vg.Length) []byte {
		return fmt.Appendf(nil, `<svg width="%gpt" height="%gpt" viewBox="%g %g %g %g"`, w, h, x, y, w, h)
	}
	return bytes.Replace(plot, size(width, height, 0, 0), size(width+2*margin, height+2*margin, -margin, -margin), 1)
}

// Package svg draws pictures as SVG whose labels fit in the font that a reader has.
//
// A picture in a page brings no font: each browser takes one of its own, and what is
// called sans-serif is a fifth wider on one machine than on another. So a [Canvas] reckons
// with the widest, a label is anchored at the side on which it must stay, and
// [Canvas.Misfits] names the labels that would then leave the picture or meet something.
package svg

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"os"
)

// Anchor is the side of a label that stands at its place.
type Anchor string

const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Canvas is a picture in the making. Places are in pixels from its upper left corner.
type Canvas struct {
	Theme
	width, height float64
	body          bytes.Buffer
	texts, shapes []box
}

// New returns an empty picture.
func New(width, height float64, t Theme) *Canvas {
	return &Canvas{Theme: t, width: width, height: height}
}

// Text writes a label on the line y.
func (c *Canvas) Text(x, y, size float64, a Anchor, col color.RGBA, text string) {
	w := Width(text, size)
	left := x
	switch a {
	case Middle:
		left -= w / 2
	case End:
		left -= w
	}
	c.texts = append(c.texts, box{left, y - ascent*size, left + w, y + descent*size, text})
	fmt.Fprintf(&c.body, `<text x="%.4g" y="%.4g" font-size="%.4g" text-anchor="%s" fill="%s">`, x, y, size, a, hex(col))
	_ = xml.EscapeText(&c.body, []byte(text)) // a buffer takes everything
	c.body.WriteString("</text>\n")
}

// Box draws a rectangle that labels may be in, but not across.
func (c *Canvas) Box(x, y, w, h float64, fill, border color.RGBA) {
	c.shapes = append(c.shapes, box{x, y, x + w, y + h, fmt.Sprintf("the box at %.0f, %.0f", x, y)})
	fmt.Fprintf(&c.body, `<rect x="%.4g" y="%.4g" width="%.4g" height="%.4g" rx="3" fill="%s" stroke="%s"/>`+"\n", x, y, w, h, paint(fill), paint(border))
}

// paint is a colour, or none for the zero one.
func paint(c color.RGBA) string {
	if c == (color.RGBA{}) {
		return "none"
	}
	return hex(c)
}

// Line draws a line that no label may meet.
func (c *Canvas) Line(x1, y1, x2, y2 float64, col color.RGBA) { c.line(x1, y1, x2, y2, col, "") }

// Dashed draws a broken one.
func (c *Canvas) Dashed(x1, y1, x2, y2 float64, col color.RGBA) {
	c.line(x1, y1, x2, y2, col, ` stroke-dasharray="4 4"`)
}

func (c *Canvas) line(x1, y1, x2, y2 float64, col color.RGBA, dash string) {
	what := fmt.Sprintf("the line from %.0f, %.0f to %.0f, %.0f", x1, y1, x2, y2)
	const parts = 64 // a slanting line is in many small boxes, not in one large one
	for i := range parts {
		a, b := float64(i)/parts, float64(i+1)/parts
		ax, ay, bx, by := x1+a*(x2-x1), y1+a*(y2-y1), x1+b*(x2-x1), y1+b*(y2-y1)
		c.shapes = append(c.shapes, box{min(ax, bx) - 0.5, min(ay, by) - 0.5, max(ax, bx) + 0.5, max(ay, by) + 0.5, what})
	}
	fmt.Fprintf(&c.body, `<line x1="%.4g" y1="%.4g" x2="%.4g" y2="%.4g" stroke="%s"%s/>`+"\n", x1, y1, x2, y2, hex(col), dash)
}

// Arrow draws a line to the left or right with a head at its end.
func (c *Canvas) Arrow(x1, y, x2 float64, col color.RGBA) {
	c.Line(x1, y, x2, y, col)
	back := x2 - 7
	if x2 < x1 {
		back = x2 + 7
	}
	fmt.Fprintf(&c.body, `<path d="M%.4g %.4gL%.4g %.4gL%.4g %.4gZ" fill="%s"/>`+"\n", x2, y, back, y-4, back, y+4, hex(col))
}

// Cross draws a small cross.
func (c *Canvas) Cross(x, y float64, col color.RGBA) {
	c.Line(x-4, y-4, x+4, y+4, col)
	c.Line(x-4, y+4, x+4, y-4, col)
}

// SVG returns the picture.
func (c *Canvas) SVG() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.4g" height="%.4g" viewBox="0 0 %.4g %.4g" font-family="%s">`+"\n",
		c.width, c.height, c.width, c.height, "Arial, Helvetica, Liberation Sans, DejaVu Sans, sans-serif")
	b.Write(c.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// Write writes a picture once for each theme, to base-light.svg and base-dark.svg. A label
// that does not fit is an error.
func Write(base string, draw func(Theme) *Canvas) error {
	for _, t := range Themes() {
		c := draw(t)
		if misfits := c.Misfits(); len(misfits) > 0 {
			return fmt.Errorf("svg: labels of %s do not fit: %q: give them more room", base, misfits)
		}
		if err := os.WriteFile(base+"-"+t.Name+".svg", c.SVG(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

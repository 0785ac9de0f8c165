package svg

import "fmt"

// widths are those of DejaVu Sans from the space to the tilde, in hundredths of the size.
// It and Verdana are the widest of the fonts that browsers take for sans-serif: Arial,
// Helvetica and Liberation Sans are up to a fifth narrower.
var widths = [...]int{
	32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 54,
	100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79, 61, 79, 70, 64, 62, 74, 69, 99, 69, 62, 69, 40, 34, 40, 84, 50,
	50, 62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
}

// Width returns how wide a text is in the widest font.
func Width(text string, size float64) float64 {
	n := 0
	for _, r := range text {
		if i := int(r) - ' '; i >= 0 && i < len(widths) {
			n += widths[i]
		} else {
			n += 100
		}
	}
	return float64(n) * size / 100
}

// Above and below the line on which a text of size 1 stands, in the tallest font.
const ascent, descent = 0.93, 0.24

// box is the room that something takes.
type box struct {
	left, top, right, bottom float64
	what                     string
}

func (b box) inside(o box) bool {
	return b.left >= o.left && b.right <= o.right && b.top >= o.top && b.bottom <= o.bottom
}

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// Misfits names the labels that leave the picture in the widest font, or meet another
// label, a line, or the border of a box.
func (c *Canvas) Misfits() (all []string) {
	whole := box{0, 0, c.width, c.height, "the picture"}
	for i, t := range c.texts {
		if !t.inside(whole) {
			all = append(all, fmt.Sprintf("%q leaves the picture: %.0f to %.0f, %.0f to %.0f", t.what, t.left, t.right, t.top, t.bottom))
		}
		for _, o := range c.texts[i+1:] {
			if t.meets(o) {
				all = append(all, fmt.Sprintf("%q meets %q", t.what, o.what))
			}
		}
		for _, o := range c.shapes {
			if t.meets(o) && !t.inside(o) {
				all = append(all, fmt.Sprintf("%q meets %s", t.what, o.what))
			}
		}
	}
	return all
}

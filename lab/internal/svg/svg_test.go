package svg

import (
	"encoding/xml"
	"image/color"
	"strings"
	"testing"
)

func TestMisfitsAreNamed(t *testing.T) {
	ink := Themes()[0].Ink
	for name, c := range map[string]struct {
		draw func(*Canvas)
		want string
	}{
		"leaves the picture": {func(c *Canvas) { c.Text(80, 20, 10, Start, ink, "wider") }, "leaves the picture"},
		"above it":           {func(c *Canvas) { c.Text(10, 5, 10, Start, ink, "x") }, "leaves the picture"},
		"another label": {func(c *Canvas) {
			c.Text(10, 20, 10, Start, ink, "one")
			c.Text(40, 20, 10, End, ink, "two")
		}, `meets "two"`},
		"a border":  {func(c *Canvas) { c.Box(20, 10, 30, 20, color.RGBA{}, ink); c.Text(10, 25, 10, Start, ink, "across") }, "meets the box"},
		"a line":    {func(c *Canvas) { c.Line(0, 0, 100, 100, ink); c.Text(40, 50, 10, Start, ink, "on") }, "meets the line"},
		"all right": {func(c *Canvas) { c.Line(0, 0, 100, 100, ink); c.Text(60, 50, 10, Start, ink, "off") }, ""},
		"in a box":  {func(c *Canvas) { c.Box(5, 10, 90, 20, color.RGBA{}, ink); c.Text(50, 25, 10, Middle, ink, "inside") }, ""},
	} {
		canvas := New(100, 100, Themes()[0])
		c.draw(canvas)
		got := strings.Join(canvas.Misfits(), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	c := New(100, 100, Themes()[1])
	c.Text(10, 20, 10, Start, c.Ink, "a < b & c")
	var picture struct {
		Text []string `xml:"text"`
	}
	if err := xml.Unmarshal(c.SVG(), &picture); err != nil || len(picture.Text) != 1 || picture.Text[0] != "a < b & c" {
		t.Fatalf("%q, %v", picture.Text, err)
	}
}

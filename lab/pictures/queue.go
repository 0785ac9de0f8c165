package main

import (
	"image/color"

	"leasehold/lab/internal/svg"
)

// claim is a place in the queue that is drawn.
type claim struct {
	ticket, permits string
	held            bool
}

// queue shows the one rule: a claim is held while the permits of all claims up to and
// including it fit the limit. Below it, the same queue when its readers have left.
func queue(t svg.Theme) *svg.Canvas {
	c := svg.New(width, 268, t)
	c.Text(20, 26, size, svg.Start, t.Ink, "Two readers hold. The writer 103 waits: 1 + 1 + Max is more than the limit Max.")
	claims(c, 42, []claim{
		{"101", "reader: 1", true}, {"102", "reader: 1", true}, {"103", "writer: Max", false},
		{"104", "reader: 1", false}, {"105", "writer: Max", false},
	})
	c.Text(20, 160, size, svg.Start, t.Ink, "Both readers leave. Now 103 is held, by the same rule. New claims come at the end.")
	claims(c, 176, []claim{
		{"103", "writer: Max", true}, {"104", "reader: 1", false}, {"105", "writer: Max", false}, {"106", "reader: 1", false},
	})
	return c
}

// claims draws a queue, the front at the left.
func claims(c *svg.Canvas, top float64, all []claim) {
	const left, wide, high, gap = 70, 104, 48, 10
	c.Text(left-10, top+high/2+4, size, svg.End, c.Ink, "front")
	x := float64(left)
	for _, one := range all {
		fill, border, ink, state := color.RGBA{}, c.Others[0], c.Ink, "waiting"
		if one.held {
			fill, border, ink, state = c.Us, c.Us, c.Ground, "held"
		}
		c.Box(x, top, wide, high, fill, border)
		c.Text(x+wide/2, top+20, size, svg.Middle, ink, one.ticket)
		c.Text(x+wide/2, top+38, size, svg.Middle, ink, one.permits)
		c.Text(x+wide/2, top+high+18, size, svg.Middle, c.Ink, state)
		x += wide + gap
	}
	c.Arrow(x+90, top+high/2, x, c.Others[0])
	c.Text(x+10, top+high/2-8, size, svg.Start, c.Ink, "new claims")
}

package main

import (
	"image/color"

	"leasehold/lab/internal/svg"
)

// lease shows the life of a lease whose engine is cut off: what proves it, until when it is
// trusted, and that it has ended before the next claim is held. Each proof counts from the
// start of its call. The margin and the times of calls are drawn larger than they are.
func lease(t svg.Theme) *svg.Canvas {
	const (
		left, end   = 180.0, 744.0
		locked      = 190.0 // the start of the call that locked
		ttl         = 270.0
		renewed     = locked + ttl/3
		margin      = 16.0
		call        = 12.0 // how long a call takes
		trusted     = renewed + ttl - margin
		deadline    = renewed + call + ttl
		row, height = 36.0, 22.0
	)
	c := svg.New(width, 300, t)
	y := 34.0
	label := func(text string) { c.Text(left-12, y+15, size, svg.End, t.Ink, text) }
	bar := func(from, to float64, fill, border, ink color.RGBA, text string) {
		c.Box(from, y, to-from, height, fill, border)
		c.Text((from+to)/2, y+15, size, svg.Middle, ink, text)
	}

	label("calls")
	c.Line(left, y+11, end, y+11, t.Grid)
	for _, at := range []float64{locked, renewed} {
		c.Box(at, y+6, call, 10, t.Us, t.Us)
	}
	for at := renewed + ttl/3; at < trusted; at += ttl / 3 {
		c.Cross(at, y+11, t.Others[1])
	}
	c.Text(locked, y-4, size, svg.Start, t.Ink, "Lock")
	c.Text(renewed, y-4, size, svg.Start, t.Ink, "renewal")
	c.Text(renewed+ttl/3-4, y-4, size, svg.Start, t.Ink, "renewals without an answer prove nothing")

	y += row
	label("proved by Lock")
	bar(locked, locked+ttl-margin, color.RGBA{}, t.Others[0], t.Ink, "granted TTL - margin")
	y += row
	label("proved by the renewal")
	bar(renewed, trusted, color.RGBA{}, t.Others[0], t.Ink, "granted TTL - margin")
	y += row
	label("lease")
	c.Dashed(trusted, y-8, trusted, y+3*row+6, t.Others[1])
	bar(locked+call, trusted, t.Us, t.Us, t.Ground, "Valid is true, the context lives")
	c.Text(trusted+8, y+15, size, svg.Start, t.Ink, "lost: the context has ended")
	y += row
	label("claim in the engine")
	bar(locked+call/2, deadline, color.RGBA{}, t.Others[0], t.Ink, "held until the engine's own deadline")
	y += row
	label("next claim")
	c.Dashed(deadline, y-8, deadline, y+2*row-6, t.Others[2])
	bar(renewed, deadline, color.RGBA{}, t.Others[0], t.Ink, "waiting")
	bar(deadline, end, t.Others[2], t.Others[2], t.Ground, "held")
	y += row
	c.Text(trusted-6, y+15, size, svg.End, t.Ink, "the lease ends here,")
	c.Text(deadline-6, y+35, size, svg.End, t.Ink, "before the next claim can be held here")
	return c
}

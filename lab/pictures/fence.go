package main

import (
	"image/color"

	"leasehold/lab/internal/svg"
)

// fence shows what docs/fencing.md tells: a holder that was stopped comes too late, and the
// stock refuses its token. Time goes down.
func fence(t svg.Theme) *svg.Canvas {
	const (
		a, lock, b, stock = 90.0, 300.0, 470.0, 660.0
		top, step         = 40.0, 34.0
	)
	c := svg.New(width, 440, t)
	at := func(n float64) float64 { return top + n*step }
	for _, lane := range []struct {
		x     float64
		label string
		parts [][2]float64 // a box is between two
	}{
		{a, "A", [][2]float64{{0, 3.7}, {9.1, 11.5}}},
		{lock, "lock", [][2]float64{{0, 4}, {4.9, 11.5}}},
		{b, "B", [][2]float64{{0, 11.5}}},
		{stock, "stock", [][2]float64{{0, 11.5}}},
	} {
		c.Text(lane.x, top-14, 15, svg.Middle, t.Ink, lane.label)
		for _, part := range lane.parts {
			c.Line(lane.x, at(part[0]), lane.x, at(part[1]), t.Grid)
		}
	}
	// say draws a message n steps down, its text beside the lane that is left.
	say := func(n, from, to, beside float64, col color.RGBA, text string) {
		c.Arrow(from, at(n), to, col)
		c.Text(beside+10, at(n)-5, size, svg.Start, t.Ink, text)
	}
	knows := func(n float64, text string) { c.Text(stock+8, at(n)+4, size, svg.Start, t.Ink, text) }
	busy := func(x, from, to float64, col color.RGBA, text ...string) {
		c.Box(x-68, at(from), 136, at(to)-at(from), color.RGBA{}, col)
		middle := (at(from)+at(to))/2 + 5 - float64(len(text)-1)*9
		for i, line := range text {
			c.Text(x, middle+float64(i)*18, size, svg.Middle, t.Ink, line)
		}
	}

	say(1, a, lock, a, t.Others[0], "Lock")
	say(2, lock, a, a, t.Us, "held, token 33")
	say(3, a, stock, a, t.Us, "read, token 33")
	knows(3, "100, mark 33")
	busy(a, 3.7, 9.1, t.Others[1], "stopped:", "garbage collector,", "hypervisor,", "SIGSTOP ...")
	busy(lock, 4, 4.9, t.Others[1], "A's lease ends")
	say(5.5, b, lock, lock, t.Others[0], "Lock")
	say(6.5, lock, b, lock, t.Us, "held, token 34")
	say(7.5, b, stock, b, t.Us, "read, token 34")
	knows(7.5, "100, mark 34")
	say(8.5, b, stock, b, t.Us, "write 95, token 34")
	knows(8.5, "95")
	say(10, a, stock, a, t.Others[1], "write 99, token 33")
	knows(10, "33 < 34")
	say(11, stock, a, a, t.Others[1], "refused: stale")
	knows(11, "95 stays")
	return c
}

package main

import (
	"image/color"

	"leasehold/lab/internal/svg"
)

// Of a timeline, in pixels.
const (
	left, right = 66.0, 10.0 // beside the lanes, and beside the texts
	rowHeight   = 21.0       // of one line of text
	pause       = 12.0       // more, for each second in which nothing happens
	wideLane    = 62.0
	narrowLane  = 13.0
	manyLanes   = 6
)

// timeline draws the recording of a demo: a lane for each process, down which time goes.
func timeline(command string, r recording) func(svg.Theme) *svg.Canvas {
	return func(t svg.Theme) *svg.Canvas {
		measure := svg.New(width, 0, t)
		height := r.draw(measure, command)
		c := svg.New(width, height, t)
		r.draw(c, command)
		return c
	}
}

// draw draws both timelines, and returns how high that is.
func (r recording) draw(c *svg.Canvas, command string) float64 {
	c.Text(10, 24, size, svg.Start, c.Others[0], "$ "+command)
	y := 54.0
	for i, one := range r.halves {
		end := c.Others[1]
		if i == 1 {
			end = c.Us
		}
		y = one.draw(c, y, end) + 22
	}
	return y - 12
}

// draw draws one timeline from y on, and returns where it ends.
func (h half) draw(c *svg.Canvas, y float64, end color.RGBA) float64 {
	for _, line := range wrap(h.title, 15, width-10-right) {
		c.Text(10, y, 15, svg.Start, c.Ink, line)
		y += rowHeight
	}
	y += 4
	lane := wideLane
	if len(h.lanes) > manyLanes {
		lane = narrowLane
	}
	for i, name := range h.lanes {
		c.Text(left+(float64(i)+0.5)*lane, y, size, svg.Middle, c.Ink, name)
	}
	y += 8
	texts := left + float64(len(h.lanes))*lane + 10
	begins := make([]float64, 0, len(h.rows)+1) // the upper edge of each row
	for i, one := range h.rows {
		if i > 0 {
			y += pause * min(3, one.at-h.rows[i-1].at)
		}
		begins = append(begins, y)
		c.Text(left-8, y+15, size, svg.End, c.Others[0], seconds(one.at))
		room := width - right - texts
		if one.mark != "" {
			c.Text(width-right, y+15, size, svg.End, c.Others[1], one.mark)
			room -= svg.Width(one.mark, size) + 10
		}
		for _, line := range wrap(one.text, size, room) {
			c.Text(texts, y+15, size, svg.Start, c.Ink, line)
			y += rowHeight
		}
	}
	begins = append(begins, y)
	for i := range h.lanes {
		h.lane(c, i, left+float64(i)*lane, lane, begins)
	}
	y += 20
	for _, line := range wrap(capital(h.seen), size, width-10-right) {
		c.Text(10, y, size, svg.Start, end, line)
		y += rowHeight
	}
	return y
}

// lane draws a box for each time in which a process was in one state.
func (h half) lane(c *svg.Canvas, i int, x, wide float64, begins []float64) {
	for from := 0; from < len(h.rows); {
		state, shared := h.rows[from].states[i], h.rows[from].mark != ""
		to := from + 1
		for to < len(h.rows) && h.rows[to].states[i] == state && (h.rows[to].mark != "") == shared {
			to++
		}
		top, bottom := begins[from], begins[to]
		fill, border, ink := color.RGBA{}, c.Others[0], c.Ink
		switch state[0] {
		case 'H': // holds
			fill, border, ink = c.Us, c.Us, c.Ground
			if shared {
				fill, border = c.Others[1], c.Others[1]
			}
		case 's': // stopped
			border = c.Others[2]
		case 'k': // killed
			border = c.Others[1]
		}
		if state == "-" {
			c.Line(x+wide/2, top, x+wide/2, bottom, c.Grid)
		} else {
			c.Box(x+1, top+1, wide-2, bottom-top-2, fill, border)
			c.Text(x+wide/2, top+15, size, svg.Middle, ink, state)
		}
		from = to
	}
}

package sim

import "time"

// million is what rates are counted in: a clock of 5,000 ppm gains 5 ms a second.
const million = 1_000_000

// clock is what one machine reads. It differs from virtual time by an offset and a rate,
// and it stands still while the machine is frozen. All of it is integers: the same on
// every processor.
type clock struct {
	since  time.Duration // virtual time, of the last change
	then   time.Duration // what it read at that moment
	ppm    int64         // how much faster than virtual time it runs
	frozen bool
}

// read is what the clock says at a moment.
func (c *clock) read(at time.Duration) time.Duration {
	if c.frozen {
		return c.then
	}
	d := int64(at - c.since)
	return c.then + time.Duration(d+d/million*c.ppm+d%million*c.ppm/million)
}

// when is the first moment at which the clock reads that much, as if nothing froze it.
func (c *clock) when(reads time.Duration) time.Duration {
	d, second := int64(reads-c.then), million+c.ppm
	if d <= 0 {
		return c.since
	}
	at := c.since + time.Duration(d/second*million+d%second*million/second)
	for running := (clock{c.since, c.then, c.ppm, false}); running.read(at) < reads; {
		at++
	}
	return at
}

func (c *clock) freeze(at time.Duration) { c.then, c.since, c.frozen = c.read(at), at, true }

func (c *clock) thaw(at time.Duration) { c.since, c.frozen = at, false }

func (c *clock) stepBack(at, by time.Duration) { c.then, c.since = c.read(at)-by, at }

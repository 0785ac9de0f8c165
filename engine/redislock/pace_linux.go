package redislock

import (
	"runtime"
	"time"
)

// pace tells what is used all the time, and had better block, from what is used
// now and then, and had better park.
//
// A thread that blocks keeps its processor until the runtime's monitor takes it
// away: after ten milliseconds, or at its next look if other goroutines want it.
// The monitor sleeps while a process has nothing to do; it is woken when a thread
// begins to block, and looks every twenty microseconds at first. So blocking is
// cheap for who is never idle, and dear for who waits for long.
type pace struct {
	parks   bool          // whatever the pace
	last    time.Time     // of being used
	gap     time.Duration // between uses, on average
	yielded time.Time
}

const (
	hot        = 2 * time.Millisecond
	cold       = 8 * time.Millisecond
	yieldAfter = 5 * time.Millisecond
)

// newPace begins cold. Where there is one processor, nobody blocks: all others
// would have to wait for the monitor.
func newPace(blocks bool) pace {
	return pace{parks: !blocks || runtime.GOMAXPROCS(0) == 1, gap: cold}
}

// tick says that it is used now.
func (p *pace) tick(now time.Time) {
	p.gap += (min(now.Sub(p.last), cold) - p.gap) / 8
	p.last = now
}

func (p *pace) hot() bool { return p.gap < hot && !p.parks }

// yield lets other goroutines run if that has not happened for a while. It is to
// be called after tick and before blocking.
//
// The monitor takes a processor away at every look, and wakes another thread for
// it, if the same goroutine has used it for ten milliseconds. A goroutine that
// blocks again and again looks like that although it used little.
func (p *pace) yield() {
	if p.last.Sub(p.yielded) > yieldAfter {
		p.yielded = p.last
		runtime.Gosched()
	}
}

package claims

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The storms: long schedules by chance, in worlds too large to explore. Chance
// comes from a number, the seed, so that a schedule that shows something can be
// had again from it, and be shortened.

var (
	seeds   = flag.Int("seeds", 2600, "run so many schedules by chance")
	oneSeed = flag.Uint64("seed", 0, "run the schedule of this number only")
)

const stormSteps = 400 // of one schedule

// storm is the world of a seed: three clients of three callers, two names, and
// any options.
func storm(r *rand.Rand) *setup {
	s := &setup{name: "storm", faults: 8, kinds: anyFault, quits: 4, revokes: 1,
		closes: r.IntN(4) == 0, subscribing: r.IntN(2) == 0}
	for range 3 {
		var c clientSetup
		for i := range 3 {
			c.callers = append(c.callers, anyCaller(r, i))
		}
		if r.IntN(3) == 0 {
			c.config.IdleTimeout = 2 * time.Second
		}
		c.config.NoLocalHandoff = r.IntN(6) == 0
		c.config.FailFast = r.IntN(6) == 0
		c.config.Detached = r.IntN(2) == 0
		s.clients = append(s.clients, c)
	}
	s.unordered, s.notifies = r.IntN(4) == 0, r.IntN(2) == 0
	return s
}

func anyCaller(r *rand.Rand, i int) callerSetup {
	name := []string{"x", "x", "y"}[r.IntN(3)]
	c := lock(name)
	c.rounds = 3
	switch r.IntN(4) {
	case 0:
		c = share(name)
		c.rounds = 3
	case 1:
		c.NoWait = true
	}
	c.TTL = []time.Duration{10 * time.Second, 10 * time.Second, 2 * time.Second}[r.IntN(3)]
	switch r.IntN(10) {
	case 0:
		c.MinHold = 1500 * time.Millisecond
	case 1:
		c.MaxHold = time.Second
	case 2:
		c.NoRenew = true
	case 3:
		c.Detached = true
	}
	if i > 0 && r.IntN(3) == 0 {
		c.inside, c.Reentrant = 1+r.IntN(i), r.IntN(2) == 0
	}
	return c
}

// fault: such a step is taken more rarely than others, so that its budget lasts.
func (o op) fault() bool {
	switch o {
	case opQuit, opCancelLost, opCancelStray, opCancelArrived, opFailLost, opFailStray, opFailArrived, opTwice, opRefuse, opSlow,
		opLose, opLate, opRepeat, opInterrupt, opPause, opClose, opRevoke:
		return true
	}
	return false
}

// chance is the schedule of a seed, and the world that it leads to.
func chance(seed uint64) (*setup, manner, []step, *world) {
	r := rand.New(rand.NewPCG(seed, 0))
	s := storm(r)
	how := manners[r.IntN(len(manners))]
	w := newWorld(s)
	w.watchPhases()
	var schedule, room []step
	for len(schedule) < stormSteps && w.broken == "" {
		room = w.steps(room[:0])
		if r.IntN(12) > 0 {
			if usual := slices.DeleteFunc(slices.Clone(room), func(st step) bool { return st.op.fault() }); len(usual) > 0 {
				room = usual
			}
		}
		if len(room) == 0 {
			break
		}
		st := room[r.IntN(len(room))]
		schedule = append(schedule, st)
		w.take(st)
		w.check()
	}
	w.settle(how)
	return s, how, schedule, w
}

// attempt takes those steps of a schedule that can be taken, and returns them,
// and what is wrong then.
func attempt(s *setup, how manner, schedule []step, say func(string)) (taken []step, broken string) {
	w := newWorld(s)
	w.say = say
	w.watchPhases()
	for _, st := range schedule {
		if !slices.Contains(w.steps(nil), st) {
			continue
		}
		taken = append(taken, st)
		w.take(st)
		if w.check(); w.broken != "" {
			return taken, w.broken
		}
	}
	if say != nil {
		say(fmt.Sprintf("  from here on without faults: %v", how))
	}
	w.settle(how)
	return taken, w.broken
}

// shorten leaves out of a schedule what it does not need to go wrong.
func shorten(s *setup, how manner, schedule []step) []step {
	for n := len(schedule); n > 0; n /= 2 {
		for at := 0; at < len(schedule); {
			without := slices.Concat(schedule[:at], schedule[min(at+n, len(schedule)):])
			if taken, broken := attempt(s, how, without, nil); broken != "" && len(taken) < len(schedule) {
				schedule = taken
			} else {
				at += n
			}
		}
	}
	return schedule
}

func TestSeeds(t *testing.T) {
	first, last := uint64(1), uint64(*seeds)
	if raced {
		last /= 4
	}
	if testing.Short() {
		last /= 4
	}
	if *oneSeed > 0 {
		first, last = *oneSeed, *oneSeed
	}
	steps := 0
	for seed := first; seed <= last; seed++ {
		s, how, schedule, w := chance(seed)
		steps += len(schedule)
		if w.broken == "" {
			continue
		}
		short := shorten(s, how, schedule)
		var text string
		_, broken := attempt(s, how, short, func(line string) { text += line + "\n" })
		t.Fatalf("-seed %d: %s\nshortened to %d steps of %d: %s\n%s", seed, w.broken, len(short), len(schedule), broken, text)
	}
	t.Logf("%d schedules, %d steps", last-first+1, steps)
}

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"leasehold/cmd/leasehold/internal/together"
	"leasehold/fence"
)

// stage is one run of a schedule, with locks of one kind.
type stage struct {
	ctx    context.Context
	scheme string // of the hand-written lock; empty: leasehold
	on     ground
	line   *timeline
	chance time.Duration // how long somebody waits with leasehold for what another holds

	answers chan answer
	actors  []*actor
	end     []func()
	err     error // the first; nothing is done after it

	resource fence.Memory // what the lock protects, and its last value
	value    string
}

// patience bounds what must happen soon on any machine.
const patience = 20 * time.Second

// wrongly is how long to wait for a lock that somebody may get beside its holder. By hand it
// comes, however busy the machine is. With leasehold it does not.
func (s *stage) wrongly() time.Duration {
	if s.ours() {
		return s.chance
	}
	return patience
}

// ours reports whether this run is with leasehold.
func (s *stage) ours() bool { return s.scheme == "" }

func (s *stage) fail(err error) {
	if s.err == nil && err != nil {
		s.err = err
	}
}

// over ends all that the schedule has started.
func (s *stage) over() {
	for _, a := range s.actors {
		a.Kill()
	}
	for i := len(s.end) - 1; i >= 0; i-- {
		s.end[i]()
	}
}

// actor starts a process whose lock has that expiry, or TTL.
func (s *stage) actor(name string, expiry time.Duration) *actor {
	return s.start(name, order{Server: s.on.url(s.ours()), Expiry: expiry})
}

func (s *stage) start(name string, o order) *actor {
	a := s.spawn(name)
	a.begin(o)
	return a
}

// spawn starts a process that has no lock yet. It makes itself ready beside what comes next.
func (s *stage) spawn(name string) *actor {
	a := &actor{s: s, name: name}
	if s.err != nil {
		return a
	}
	var err error
	a.Process, err = together.Start([]string{"demo-process"}, func(line string) { s.answers <- answer{from: a, text: line} })
	if err != nil {
		s.fail(err)
		return a
	}
	s.actors = append(s.actors, a)
	go func() {
		<-a.Ended()
		s.answers <- answer{from: a, over: true}
	}()
	return a
}

// begin gives a process its lock.
func (a *actor) begin(o order) {
	s := a.s
	o.Scheme, o.Prefix, o.Owner = s.scheme, s.on.prefix, a.name
	text, err := json.Marshal(o)
	s.fail(err)
	if s.err != nil {
		return
	}
	s.fail(a.Say(string(text)))
	if said := a.await(patience); s.err == nil && said != "ready" {
		s.fail(fmt.Errorf("process %s: %q", a.name, said))
	}
}

// next is the next answer of any process, or none in time.
func (s *stage) next(within time.Duration) (from *actor, text string) {
	if s.err != nil {
		return nil, ""
	}
	for _, a := range s.actors {
		if len(a.queued) > 0 {
			text, a.queued = a.queued[0], a.queued[1:]
			return a, text
		}
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.fail(s.ctx.Err())
			return nil, ""
		case <-timeout.C:
			return nil, ""
		case got := <-s.answers:
			switch {
			case !got.over:
				return got.from, got.text
			case s.line.states[got.from.name] != killed:
				s.fail(fmt.Errorf("process %s ended: %w", got.from.name, got.from.Wait()))
				return nil, ""
			}
		}
	}
}

// wait lets time pass in which the processes work.
func (s *stage) wait(long time.Duration) {
	if s.err == nil {
		select {
		case <-time.After(long):
		case <-s.ctx.Done():
			s.fail(s.ctx.Err())
		}
	}
}

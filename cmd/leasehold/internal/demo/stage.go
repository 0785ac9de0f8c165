package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"leasehold"
	"leasehold/fence"
)

// stage is one run of a schedule, with locks of one kind.
type stage struct {
	ctx    context.Context
	scheme string // of the hand-written lock; empty: leasehold
	on     ground
	line   *timeline

	answers chan answer
	actors  []*actor
	end     []func()
	err     error // the first; nothing is done after it

	resource fence.Memory // what the lock protects, and its last value
	value    string
}

// actor is a process of the schedule, as the schedule drives it.
type actor struct {
	*Process
	s      *stage
	name   string
	before string   // its state when it was stopped
	queued []string // answers that nobody has asked for yet
}

type answer struct {
	from *actor
	text string
	over bool // the process has ended
}

// patience bounds what must happen soon on any machine.
const patience = 20 * time.Second

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
	a := &actor{s: s, name: name}
	if s.err != nil {
		return a
	}
	o.Scheme, o.Prefix, o.Owner = s.scheme, s.on.prefix, name
	text, err := json.Marshal(o)
	if err != nil {
		s.fail(err)
		return a
	}
	a.Process, err = Start([]string{"demo-process"}, func(line string) { s.answers <- answer{from: a, text: line} })
	if err != nil {
		s.fail(err)
		return a
	}
	s.actors = append(s.actors, a)
	go func() {
		<-a.ended
		s.answers <- answer{from: a, over: true}
	}()
	s.fail(a.Say(string(text)))
	if said := a.await(patience); s.err == nil && said != "ready" {
		s.fail(fmt.Errorf("process %s: %q", name, said))
	}
	return a
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
				s.fail(fmt.Errorf("process %s ended: %w", got.from.name, errors.Join(got.from.err, got.from.said.err())))
				return nil, ""
			}
		}
	}
}

// await is the next answer of this process; empty: none in time.
func (a *actor) await(within time.Duration) string {
	end := time.Now().Add(within)
	var others []answer
	defer func() {
		for _, o := range others {
			o.from.queued = append(o.from.queued, o.text)
		}
	}()
	for {
		from, text := a.s.next(time.Until(end))
		if from == nil || from == a {
			return text
		}
		others = append(others, answer{from: from, text: text})
	}
}

// order writes one order to the process.
func (a *actor) order(verb, name string, within time.Duration) {
	if a.s.err == nil {
		a.s.fail(a.Say(fmt.Sprintf("%s %s %v", verb, name, within)))
	}
}

// do is an order and its answer: nil, or why not.
func (a *actor) do(verb, name string, within time.Duration) error {
	a.order(verb, name, within)
	said := a.await(within + patience)
	why, refused := strings.CutPrefix(said, no+" ")
	switch {
	case refused:
		return errors.New(why)
	case said == "":
		a.s.fail(fmt.Errorf("process %s does not answer", a.name))
	}
	return nil
}

// say prints a moment in which a process has that state from now on.
func (a *actor) say(state, format string, args ...any) {
	a.s.line.states[a.name] = state
	if a.s.err == nil {
		a.s.line.say(format, args...)
	}
}

// lock asks for a name and waits for the answer.
func (a *actor) lock(name string, within time.Duration) bool {
	a.ask(name, within)
	return a.got(within + patience)
}

// ask asks for a name; got is whether it is held within a while.
func (a *actor) ask(name string, within time.Duration) {
	a.say(waits, "%s asks for %s", a.name, name)
	a.order("lock", name, within)
}

func (a *actor) got(within time.Duration) bool {
	said := a.await(within)
	if said == yes {
		a.say(holds, "%s has the lock", a.name)
	} else if said != "" {
		a.say(idle, "%s does not get it: %s", a.name, brief(strings.TrimPrefix(said, no+" ")))
	}
	return said == yes
}

// must is got for what the schedule begins with.
func (a *actor) must(held bool) {
	if !held {
		a.s.fail(fmt.Errorf("process %s did not get the lock", a.name))
	}
}

// believes reports whether the process believes to hold, and prints what it says.
func (a *actor) believes(name string) bool {
	err := a.do("holds", name, time.Second)
	if err != nil {
		a.say(idle, "%s knows that it does not hold: %s", a.name, brief(err.Error()))
		return false
	}
	a.say(holds, "%s believes to hold", a.name)
	return true
}

func (a *actor) unlock(name string) {
	if err := a.do("unlock", name, patience); err != nil {
		a.say(idle, "%s unlocks, and gets: %s", a.name, brief(err.Error()))
		return
	}
	a.say(idle, "%s unlocks", a.name)
}

func (a *actor) kill() {
	if a.s.err == nil {
		a.s.line.states[a.name] = killed
		a.Kill()
		a.say(killed, "%s is killed (kill -9)", a.name)
	}
}

// pause stops the process, as a full garbage collection or a hypervisor would.
func (a *actor) pause() {
	if a.s.err == nil {
		a.s.fail(a.halt())
		a.before = a.s.line.states[a.name]
		a.say(stopped, "%s is stopped (kill -STOP)", a.name)
	}
}

func (a *actor) resume() {
	if a.s.err == nil {
		a.s.fail(a.proceed())
		a.s.line.states[a.name] = a.before
	}
}

// write writes to what the lock protects, and shows the token if there is one. It
// reports whether the resource let it in.
func (a *actor) write(name, value string) bool {
	a.order("pass", name, patience)
	said := a.await(patience)
	token, _ := strings.CutPrefix(said, yes)
	if a.s.err != nil {
		return false
	}
	if token = strings.TrimSpace(token); token == "" {
		a.s.value = value
		a.say(a.s.line.states[a.name], "%s writes %s", a.name, value)
		return true
	}
	pass, err := fence.Parse(a.s.on.prefix+name, token)
	if err == nil {
		err = a.s.resource.Do(a.s.ctx, pass, func() error {
			a.s.value = value
			return nil
		})
	}
	switch {
	case errors.Is(err, fence.ErrStale):
		a.say(a.s.line.states[a.name], "%s writes %s with token %v: refused, a higher token was here", a.name, value, leasehold.Token(pass.Token))
		return false
	case err != nil:
		a.s.fail(err)
		return false
	}
	a.say(a.s.line.states[a.name], "%s writes %s with token %v", a.name, value, pass.Token)
	return true
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

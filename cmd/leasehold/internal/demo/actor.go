package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"leasehold"
	"leasehold/fence"
	"leasehold/internal/child"
)

// actor is a process of the schedule, as the schedule drives it.
type actor struct {
	*child.Process
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
		a.s.fail(a.Halt())
		a.before = a.s.line.states[a.name]
		a.say(stopped, "%s is stopped (kill -STOP)", a.name)
	}
}

func (a *actor) resume() {
	if a.s.err == nil {
		a.s.fail(a.Proceed())
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

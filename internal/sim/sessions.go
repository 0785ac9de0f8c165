package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// endless is how long the queue keeps a claim that lives by a session.
const endless = 10_000 * time.Hour

// session is a client as an engine of sessions knows it: all claims that were made in it
// end when nothing was heard of the client for the TTL.
type session struct {
	process process
	address string
	heard   time.Duration // last, by the engine's clock
	lots    map[*lot]struct{}
	over    bool
}

// contact takes in that something arrived from a process, and returns its session. A
// process whose session has ended gets another; a dead one does not.
func (s *store) contact(p process) *session {
	ses := s.sessions[p]
	if ses == nil || ses.over {
		if !p.alive() {
			return nil
		}
		p.client.sessions++
		p.client.owed = nil // it ended with the session
		ses = &session{process: p, address: fmt.Sprint(p.address(), ".", p.client.sessions), lots: map[*lot]struct{}{}}
		s.sessions[p] = ses
		s.w.addresses[ses.address] = p
		s.w.at(s.clock.when(s.now()+s.w.TTL), func() { s.expire(ses) })
	}
	ses.heard = s.now()
	return ses
}

// expire ends a session, or looks again later.
func (s *store) expire(ses *session) {
	if end := ses.heard + s.w.TTL; s.now() < end {
		s.w.at(s.clock.when(end), func() { s.expire(ses) })
		return
	}
	s.w.say("the session of %v ends", ses.process.client)
	ses.over = true
	delete(s.sessions, ses.process)
	ses.process.client.disturb()
	for _, l := range slices.SortedFunc(maps.Keys(ses.lots), func(a, b *lot) int { return cmp.Compare(a.index, b.index) }) {
		s.send(l.queue.Depart(s.now(), l.name, func(client string) bool { return client == ses.address }))
	}
}

// remember notes that a session has a claim of a name.
func (s *store) remember(address string, l *lot) {
	p := s.w.addresses[address]
	s.sessions[p].lots[l] = struct{}{}
}

// beat is a sign of life that the client's connection sends by itself.
func (c *client) beat() {
	if c.w.Policy != Sessions {
		return
	}
	p := process{c, c.life}
	if c.there == 0 {
		c.w.at(c.w.now+c.delay(), func() {
			if !c.w.store.down && p.alive() {
				c.w.store.contact(p)
				c.w.store.tidy(c)
			}
		})
	}
	c.later(c.w.TTL/4, c.beat)
}

// tidy does the Leaves that did not arrive. The core repeats a Leave until the claim must
// have expired. A session may last longer: its engine goes on, since nothing else would end
// that claim.
func (s *store) tidy(c *client) {
	for _, l := range c.owed {
		_, notifications := s.w.lotOf(l.Name).queue.Leave(s.now(), l.Name, l.ID)
		s.send(notifications)
	}
	c.owed = nil
}

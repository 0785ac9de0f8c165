package torture

import (
	"bufio"
	"encoding/json"
	"sync"
	"time"

	"leasehold"
	"leasehold/internal/boottime"
	"leasehold/torture/history"
)

// witness hears the clients, stamps and writes what happens, and keeps the resources.
type witness struct {
	began     time.Duration
	fail      func(error) // ends the trial
	resources map[string]*resource
	groups    *groups // of the clients; nil: they have none

	mu      sync.Mutex
	out     *history.Writer
	flush   func() error // of what out writes to
	queue   []*entry     // stamped, and not yet written
	clients map[string]*client
	status  Status
	trouble int // failed calls, lost leases, and engines that did not answer
	offers  []adoption

	rawNames, rawCalls int // for calls of the engine itself, and how many of those there were

	// Who is missing, and for how long without a fault: see place.
	places    []*place
	stirred   int           // faults that may be under way
	calm      time.Duration // without one, before calmed
	calmed    time.Time
	missed    time.Duration // the longest
	missedFor error
}

// entry is an event that waits until it is known whether the marks before it count.
type entry struct {
	event   history.Event
	open    bool // a mark that the client has not confirmed
	dropped bool // a mark that does not count
}

func newWitness(out *bufio.Writer, fail func(error)) *witness {
	return &witness{
		began: boottime.Now(), calmed: time.Now(), fail: fail, resources: map[string]*resource{}, out: history.NewWriter(out), flush: out.Flush, clients: map[string]*client{},
	}
}

// record stamps an event.
func (w *witness) record(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recordLocked(e, false)
}

func (w *witness) recordLocked(e history.Event, open bool) *entry {
	e.At = boottime.Now() - w.began
	x := &entry{event: e, open: open}
	w.queue = append(w.queue, x)
	if len(w.queue) == 1 {
		w.flushLocked()
	}
	return x
}

// flushLocked writes all that stands before the first mark that is open: the history is in
// the order of its stamps, and a mark that does not count must not be in it.
func (w *witness) flushLocked() {
	for len(w.queue) > 0 && !w.queue[0].open {
		if !w.queue[0].dropped {
			if err := w.out.Write(w.queue[0].event); err != nil {
				w.fail(err)
			}
		}
		w.queue[0] = nil
		w.queue = w.queue[1:]
	}
}

// heard takes in a line of a client, and answers it.
func (w *witness) heard(c *client, line string) {
	var s said
	if json.Unmarshal([]byte(line), &s) != nil {
		return // what a killed client did not write to its end
	}
	w.mu.Lock()
	answer := told{Answer: s.Ask}
	switch {
	case s.Event != nil:
		w.eventLocked(c, &s, &answer)
	case s.Mark != 0:
		if x := c.marks[s.Mark]; x != nil {
			x.open, x.dropped = false, !s.Valid
			delete(c.marks, s.Mark)
			w.flushLocked()
		}
	case s.Down != "":
		w.trouble++
	case s.Pong != 0:
		if pong := c.pings[s.Pong]; pong != nil {
			close(pong)
			delete(c.pings, s.Pong)
		}
	case s.Ready:
		w.clients[c.name] = c
		w.recordLocked(history.Event{Kind: history.Start, Client: c.name}, false)
		close(c.ready)
	}
	w.mu.Unlock()
	if s.Ask != 0 {
		c.tell(answer)
	}
	w.passOn(c)
}

// eventLocked records an event of a client, and does what it asks for.
func (w *witness) eventLocked(c *client, s *said, answer *told) {
	e := *s.Event
	e.Client = c.name
	switch e.Kind {
	case history.Mark:
		c.marks[s.Ask] = w.recordLocked(e, true)
		return
	case history.Read, history.Write:
		w.serveLocked(&e, s.Shared)
		answer.Value, answer.Stale = e.Value, e.Stale
	case history.Call:
		c.calls[e.Op] = e
		if e.What == history.Raw {
			w.rawCalls++
			answer.Round = w.roundLocked()
		}
	case history.Answer:
		w.answeredLocked(c, &e)
		if s.Handle != "" {
			w.offers = append(w.offers, adoption{Of: e.Of, Name: e.Name, Handle: s.Handle})
			e.Of, e.Name = 0, "" // they are those of its Call
		}
	case history.Lost:
		delete(c.holds, e.Op)
		w.status.Lost++
		if e.Error != leasehold.LossRevoked.String() { // which another client has asked for
			w.trouble++
		}
	}
	w.recordLocked(e, false)
}

// callsOfName is how many calls of the engine itself are about one name: more of them can
// have too many orders for a checker.
const callsOfName = 400

// roundLocked is which names calls of the engine itself are about now.
func (w *witness) roundLocked() int { return w.rawCalls / (callsOfName * max(1, w.rawNames)) }

// round is roundLocked.
func (w *witness) round() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roundLocked()
}

// answeredLocked counts the answer of a call.
func (w *witness) answeredLocked(c *client, e *history.Event) {
	call := c.calls[e.Op]
	delete(c.calls, e.Op)
	if e.Result == history.Failed {
		w.status.Failed++
		w.trouble++
	}
	switch call.What {
	case history.Lock, history.Try, history.Adopt:
		if e.Result == history.OK {
			c.holds[e.Op] = call.Name
			w.status.Holds++
			w.status.Waited = max(w.status.Waited, e.Waited)
		}
	case history.Unlock, history.Detach:
		delete(c.holds, call.Of)
	}
}

// passOn gives the detached leases to clients, another one than from if there is one.
func (w *witness) passOn(from *client) {
	w.mu.Lock()
	offers := w.offers
	w.offers = nil
	to := from
	for _, c := range w.clients { // in a random order
		if c != from && !c.ending {
			to = c
			break
		}
	}
	w.mu.Unlock()
	for _, a := range offers {
		to.tell(told{Adopt: &a})
	}
}

package check

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/torture/history"
)

// simulation is a lock that is right, with clients that call it, lose their leases, are
// stopped and are killed. It writes what a witness would see. A fault can be planted.
type simulation struct {
	pick   func(n int) int
	plant  Property // of which one violation is planted; "": none
	done   bool     // it is
	events []history.Event
	now    time.Duration
	ops    int64
	faults int
	names  []*lock
	all    []*client
	alive  int
}

type lock struct {
	name    string
	queue   queue.Queue
	fenced  int64
	highest uint64
	at      time.Duration // when that was granted
	former  client        // who held it exclusively before
	last    client        // who holds it so now
}

type client struct {
	name    string
	lock    *lock
	op      int64
	end     int64 // its Unlock
	call    time.Duration
	queued  time.Duration // 0: not
	what    string
	permits int32
	limit   int32
	phase   string // "", called, waiting, held, lost, told, unlocking, dead
	token   uint64
	marked  bool
	since   time.Duration // lost since
	stopped int           // the fault
	answer  string
}

func (s *simulation) add(e history.Event) {
	e.At = s.now
	s.events = append(s.events, e)
}

func (s *simulation) of(c *client, e history.Event) {
	e.Client, e.Op = c.name, c.op
	s.add(e)
}

func claim(op int64) (id engine.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(op))
	return id
}

const always = time.Duration(1 << 61)

// held is whether the queue says that a client holds.
func (c *client) held() bool {
	i := slices.IndexFunc(c.lock.queue.Places, func(p queue.Place) bool { return p.ID == claim(c.op) })
	return i >= 0 && c.lock.queue.Places[i].Held
}

func (c *client) leave() { c.lock.queue.Leave(0, "", claim(c.op)) }

func (s *simulation) run(steps int) []history.Event {
	d := declares()
	d.Bound = time.Hour
	s.add(history.Event{Kind: history.Begin, Run: &history.Run{TTL: time.Second, Declares: d}})
	for i := range 2 {
		s.names = append(s.names, &lock{name: fmt.Sprint("n", i)})
	}
	for len(s.all) < 5 {
		s.join()
	}
	for range steps {
		s.now += time.Duration(1+s.pick(40)) * time.Millisecond
		s.overdue()
		c := s.all[s.pick(len(s.all))]
		if c.stopped == 0 {
			s.step(c)
		} else if s.pick(10) == 0 {
			s.add(history.Event{Kind: history.Heal, Fault: c.stopped})
			c.stopped = 0
		}
	}
	s.now += time.Second
	s.overdue()
	s.now += notice // after that a client that knows nothing of its loss is late
	if s.plant == Liveness {
		s.stuck()
	}
	s.add(history.Event{Kind: history.End})
	if s.plant == Nothing {
		s.done = true
		s.add(history.Event{Kind: history.Left, What: "keys", Value: 1})
	}
	return s.events
}

func (s *simulation) join() {
	s.alive++
	c := &client{name: fmt.Sprint("c", s.alive)}
	s.all = append(s.all, c)
	s.add(history.Event{Kind: history.Start, Client: c.name})
}

// overdue tells clients of their losses before it is too late.
func (s *simulation) overdue() {
	for _, c := range s.all {
		if s.plant != Notified && c.phase == "lost" && c.stopped == 0 && s.now-c.since >= time.Second {
			s.tell(c)
		}
	}
}

func (s *simulation) tell(c *client) {
	c.phase = "told"
	s.of(c, history.Event{Kind: history.Lost})
}

func (s *simulation) step(c *client) {
	switch c.phase {
	case "":
		s.call(c)
	case "called":
		s.arrive(c)
	case "waiting":
		s.waits(c)
	case "held":
		s.holds(c)
	case "lost":
		if s.plant != Notified {
			s.tell(c)
		}
	case "told":
		s.unlock(c, history.Gone)
	case "unlocking":
		c.leave()
		s.add(history.Event{Kind: history.Answer, Client: c.name, Op: c.end, Result: c.answer})
		c.phase = ""
	}
}

func (s *simulation) call(c *client) {
	s.ops++
	*c = client{name: c.name, lock: s.names[s.pick(6)/4], op: s.ops, call: s.now, what: history.Lock, phase: "called"}
	c.permits, c.limit = engine.Max, engine.Max
	if c.lock.name == "n1" {
		c.permits, c.limit = int32(1+s.pick(3)), 3
	} else if s.pick(3) == 0 {
		c.permits = 1
	}
	if s.pick(4) == 0 {
		c.what = history.Try
	}
	s.of(c, history.Event{Kind: history.Call, What: c.what, Name: c.lock.name, Permits: c.permits, Limit: c.limit})
}

func (s *simulation) arrive(c *client) {
	got, _, err := c.lock.queue.Join(0, 0, "", engine.Request{ID: claim(c.op), Permits: c.permits, Limit: c.limit, WaitTTL: always, NoWait: c.what == history.Try})
	switch {
	case err != nil || got.State == engine.Gone:
		s.of(c, history.Event{Kind: history.Answer, Result: history.Taken})
		c.phase = ""
		return
	case got.State == engine.Waiting:
		c.queued = s.now
		s.of(c, history.Event{Kind: history.Queued})
	}
	c.token, c.phase = got.Ticket<<engine.HandoffBits, "waiting"
}

func (s *simulation) waits(c *client) {
	switch {
	case c.held():
		s.grant(c)
	case s.plant == Exclusion && !s.done && s.double(c), s.plant == Order && !s.done && s.overtake(c):
	case s.pick(12) == 0:
		c.leave()
		s.of(c, history.Event{Kind: history.Answer, Result: history.Gave})
		c.phase = ""
	case s.pick(12) == 0:
		s.strike(c)
	}
}

func (s *simulation) grant(c *client) {
	token := c.token
	if s.plant == Tokens && !s.done && c.permits == c.limit && c.lock.highest > 1<<10 && c.lock.at < c.call {
		s.done, token = true, c.lock.highest-(1<<10)
	}
	c.token = token
	if c.permits == c.limit && token > c.lock.highest {
		c.lock.highest, c.lock.at = token, s.now
	}
	if c.permits == c.limit {
		c.lock.former, c.lock.last = c.lock.last, *c
	}
	c.phase = "held"
	s.of(c, history.Event{Kind: history.Answer, Result: history.OK, Token: token})
}

// double grants what somebody else has.
func (s *simulation) double(c *client) bool {
	for _, o := range s.all {
		if o.phase == "held" && o.stopped == 0 && o.lock == c.lock && conflictOf(o, c) {
			s.done = true
			s.grant(c)
			for range 2 {
				for _, x := range []*client{o, c} {
					s.now += time.Millisecond
					s.of(x, history.Event{Kind: history.Mark, Token: x.token})
				}
			}
			return true
		}
	}
	return false
}

func conflictOf(a, b *client) bool { return int64(a.permits)+int64(b.permits) > int64(a.limit) }

// overtake grants one that came later, and then who had its place before.
func (s *simulation) overtake(c *client) bool {
	for _, o := range s.all {
		if o.phase == "waiting" && o.stopped == 0 && o.lock == c.lock && o.queued > 0 && o.queued < c.call && conflictOf(o, c) && o.held() && !c.held() && !s.struck(o.call) {
			s.done = true
			s.grant(c)
			s.now += time.Millisecond
			s.grant(o)
			return true
		}
	}
	return false
}

// struck is whether there was a fault since then: a claim may have ended in it.
func (s *simulation) struck(since time.Duration) bool {
	return slices.ContainsFunc(s.events, func(e history.Event) bool { return e.Kind == history.Heal && e.At >= since }) ||
		slices.ContainsFunc(s.all, func(c *client) bool { return c.stopped != 0 })
}

func (s *simulation) holds(c *client) {
	switch s.pick(14) {
	case 0, 1, 2, 3:
		s.mark(c)
	case 4, 5:
		s.resource(c)
	case 6:
		c.phase, c.since = "lost", s.now
		c.leave()
		if s.plant == Honesty && !s.done {
			s.lie(c)
		}
	case 7:
		s.strike(c)
	case 8:
		s.faults++
		s.add(history.Event{Kind: history.Strike, Fault: s.faults, Named: "kill", Client: c.name})
		s.add(history.Event{Kind: history.Exit, Client: c.name})
		s.add(history.Event{Kind: history.Heal, Fault: s.faults})
		c.leave()
		s.all = slices.DeleteFunc(s.all, func(x *client) bool { return x == c })
		s.join()
	default:
		s.unlock(c, history.OK)
	}
}

func (s *simulation) mark(c *client) {
	c.marked = true
	s.of(c, history.Event{Kind: history.Mark, Token: c.token})
	for _, o := range s.all {
		if s.plant == Notified && o.phase == "lost" && o.marked && o.stopped == 0 && o.lock == c.lock && (o.permits == o.limit || c.permits == c.limit) {
			s.done = true
		}
	}
}

// strike stops a client. Its claim may end meanwhile.
func (s *simulation) strike(c *client) {
	s.faults++
	c.stopped = s.faults
	s.add(history.Event{Kind: history.Strike, Fault: s.faults, Named: "stop", Client: c.name})
	if c.phase == "held" && s.pick(2) == 0 {
		c.phase, c.since = "lost", s.now
		c.leave()
	}
}

// lie has somebody else hold what c lost, and c be told that it had it until the end.
func (s *simulation) lie(c *client) {
	for _, o := range s.all {
		if o.phase == "waiting" && o.stopped == 0 && o.lock == c.lock && o.held() && conflictOf(o, c) {
			s.done = true
			s.grant(o)
			s.now += time.Millisecond
			s.of(o, history.Event{Kind: history.Mark, Token: o.token})
			s.now += time.Millisecond
			s.unlock(c, history.OK)
			s.step(c)
			return
		}
	}
}

func (s *simulation) unlock(c *client, answer string) {
	s.ops++
	c.end, c.answer, c.phase = s.ops, answer, "unlocking"
	s.add(history.Event{Kind: history.Call, Client: c.name, Op: c.end, Of: c.op, What: history.Unlock, Name: c.lock.name})
}

// resource reads and writes the fenced counter. If that is planted, it takes the write of the
// lease before in between.
func (s *simulation) resource(c *client) {
	if c.permits != c.limit || c.token < c.lock.highest {
		return
	}
	e := history.Event{Kind: history.Read, Name: c.lock.name, Resource: history.Fenced, Token: c.token, Value: c.lock.fenced}
	s.of(c, e)
	c.lock.fenced++
	e.Kind, e.Value = history.Write, c.lock.fenced
	if o := c.lock.former; s.plant == Resource && !s.done && o.op != 0 {
		s.done = true
		s.of(&o, e)
	}
	s.of(c, e)
}

// stuck lets who waits for a free name wait for ever.
func (s *simulation) stuck() {
	for _, c := range s.all {
		if c.stopped != 0 {
			s.add(history.Event{Kind: history.Heal, Fault: c.stopped})
			c.stopped = 0
		}
	}
	for _, c := range s.all {
		if c.phase == "held" || c.phase == "lost" || c.phase == "told" {
			s.unlock(c, history.Gone)
		}
		if c.phase == "unlocking" {
			s.step(c)
		}
	}
	s.done = slices.ContainsFunc(s.all, func(c *client) bool { return (c.phase == "waiting" || c.phase == "called") && c.what == history.Lock })
	s.now += 2 * time.Hour
}

func simulate(t *rapid.T, plant Property) (*simulation, *Result) {
	choices := rapid.SliceOfN(rapid.Byte(), 300, 1500).Draw(t, "choices")
	s := &simulation{plant: plant, pick: func(n int) int {
		if len(choices) == 0 {
			return 0
		}
		c := int(choices[0]) % n
		choices = choices[1:]
		return c
	}}
	r, err := History(s.run(len(choices)/3), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func TestARightLockIsBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, r := simulate(t, "")
		if len(r.Findings) > 0 {
			t.Fatalf("%+v", r.Findings[0])
		}
	})
}

func TestAPlantedFaultIsNotFound(t *testing.T) {
	for _, p := range properties {
		t.Run(string(p), func(t *testing.T) {
			planted := 0
			rapid.Check(t, func(t *rapid.T) {
				s, r := simulate(t, p)
				found := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Property == p })
				if s.done {
					planted++
				}
				if s.done && !found {
					t.Fatalf("nothing is found: %v", r.Findings)
				}
				if !s.done && p != Notified && len(r.Findings) > 0 {
					t.Fatalf("nothing was planted: %+v", r.Findings[0])
				}
			})
			if planted == 0 {
				t.Fatal("it was never planted")
			}
			t.Logf("planted %d times", planted)
		})
	}
}

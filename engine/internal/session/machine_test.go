package session

import (
	"slices"
	"testing"

	"leasehold/engine"
)

// one is a machine with one claim, and what it tells.
func one(permits int32) (m *Machine[*Claim], c *Claim, notified *[]engine.Claim) {
	m, notified = &Machine[*Claim]{PollAfter: func(*Claim) {}}, new([]engine.Claim)
	m.Notify = func(c engine.Claim) { *notified = append(*notified, c) }
	m.Start()
	c = &Claim{Request: engine.Request{Name: "x", ID: engine.NewID(), Permits: permits, Limit: 2}, Queue: "q", Floor: 5}
	m.Begin(c)
	return m, c, notified
}

// Queues may be read in one order and arrive in another.
func TestAQueueThatWasReadEarlierUnsaysNoHold(t *testing.T) {
	m, c, _ := one(2)
	m.Made(c, "k", 1, 0)
	before, after := View{Ticket: 7, Ahead: []Node{{Key: "a"}}}, View{Ticket: 7, Held: true}
	for i, step := range []struct {
		v    View
		want Phase
	}{{before, Waiting}, {after, Held}, {before, Held}, {after, Held}} {
		if m.Read(c, step.v); c.Phase != step.want {
			t.Errorf("step %d: phase %d, want %d", i, c.Phase, step.want)
		}
	}
	if m.Listening() != 2 { // its own key, and what it waited for no more
		t.Errorf("it listens to %d", m.Listening())
	}
}

// A store may make a claim anew: what was known of its former incarnation is void.
func TestANewLifeBeginsAnew(t *testing.T) {
	m, c, notified := one(2)
	m.Made(c, "k", 1, 0)
	m.Read(c, View{Ticket: 7, Held: true})
	m.News(c)
	m.Revoke(c, 6) // of a life before
	if c.Phase != Held {
		t.Fatalf("phase %d", c.Phase)
	}
	m.Revoke(c, 7)
	m.Read(c, View{Ticket: 7, Held: true}) // late
	if c.Phase != Marked {
		t.Fatalf("phase %d after it was revoked", c.Phase)
	}
	m.Read(c, View{Ticket: 9, Ahead: []Node{{Key: "a"}}})
	if got := m.Report(c); got.State != engine.Waiting || got.Ticket != 9 || c.Floor != 8 {
		t.Errorf("made anew it is %v with ticket %d, above %d", got.State, got.Ticket, c.Floor)
	}
	states := []engine.State{}
	for _, n := range *notified {
		states = append(states, n.State)
	}
	if !slices.Equal(states, []engine.State{engine.Held, engine.Gone}) {
		t.Errorf("told: %v", states)
	}
}

// A Join that was not answered may arrive when its claim has left: it is kept in mind until
// the store is known to refuse it, or its session has ended.
func TestWhatMayArriveYetIsIndeterminate(t *testing.T) {
	for _, how := range []string{"tidied", "ended", "another session ended"} {
		m, c, _ := one(2)
		c.Indeterminate, c.Session = true, 3
		m.Left(c)
		if c.Phase != Indeterminate || m.Indeterminate != 1 || m.Claims[c.ID] == nil {
			t.Fatalf("phase %d, %d are indeterminate", c.Phase, m.Indeterminate)
		}
		m.Left(c) // again: it is as doubtful as before
		switch how {
		case "tidied":
			m.Tidied(c)
		case "ended":
			m.Ended(3)
		default:
			m.Ended(4)
		}
		if gone := c.Phase == Gone && m.Indeterminate == 0 && len(m.Claims) == 0; gone != (how != "another session ended") {
			t.Errorf("%s: phase %d, %d are indeterminate", how, c.Phase, m.Indeterminate)
		}
	}
}

// Who came and went behind a holder that was alone is told of, once: before it listens by
// the version of its queue, after that by the event.
func TestWhoCameAndWentIsNotifiedOf(t *testing.T) {
	m, c, notified := one(2)
	m.Made(c, "k", 1, 7)
	m.Read(c, View{Held: true, Version: 10})
	m.Report(c)
	m.Settle(c)
	m.Take(c)
	m.Read(c, View{Held: true, Version: 12, Watched: true})
	m.News(c)
	if len(*notified) != 1 || !(*notified)[0].Contended {
		t.Fatalf("before it listened: %v", *notified)
	}
	m.Read(c, View{Held: true, Version: 12, Watched: true})
	if got := m.Report(c); got.Contended {
		t.Error("nobody waits any more, and it is contended")
	}
	m.Changed("q", Listed)
	if len(*notified) != 2 || !(*notified)[1].Contended || c.Due&Queue == 0 {
		t.Fatalf("after it listened: %v", *notified)
	}
	m.Read(c, View{Held: true, Version: 12, Watched: true}) // asked for before that
	if !m.Report(c).Contended {
		t.Error("a queue that was read before somebody came unsays it")
	}
	m.Take(c)
	m.Read(c, View{Held: true, Version: 14, Watched: true})
	if m.Report(c).Contended {
		t.Error("nobody waits any more, and it is contended")
	}
}

// What is to be written waits for what is to be read, and is not forgotten.
func TestAWakeUpIsDoneLast(t *testing.T) {
	m, c, _ := one(1)
	m.Made(c, "k", 1, 7)
	m.Take(c)
	m.Owe(c, Queue)
	m.Read(c, View{Held: true, Wakes: true})
	if due := m.Take(c); due != Queue {
		t.Errorf("first %d is due", due)
	}
	if due := m.Take(c); due != Wake {
		t.Errorf("then %d is due", due)
	}
}

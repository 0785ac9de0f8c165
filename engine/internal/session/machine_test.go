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

// Whatever ends a claim says how: by somebody who removed it, by its session, or by one
// of which nobody knows whether it is that. Its client is told once, and it is forgotten
// once.
func TestAnEndSaysWhoseItWas(t *testing.T) {
	for what, c := range map[string]struct {
		session int64 // as the answer that it stands said
		end     func(m *Machine[*Claim], c *Claim)
		revoked bool
	}{
		"its node was removed":         {3, func(m *Machine[*Claim], _ *Claim) { m.Changed("k", Removed) }, true},
		"it vanished in its session":   {3, func(m *Machine[*Claim], c *Claim) { m.Vanished(c, 3) }, true},
		"it vanished after that":       {3, func(m *Machine[*Claim], c *Claim) { m.Vanished(c, 4) }, false},
		"it vanished, without session": {0, func(m *Machine[*Claim], c *Claim) { m.Vanished(c, 0) }, false},
		"its session ended":            {3, func(m *Machine[*Claim], _ *Claim) { m.Ended(3) }, false},
		"one ended that may be its":    {0, func(m *Machine[*Claim], _ *Claim) { m.Ended(3) }, false},
		"its node is another's":        {0, func(m *Machine[*Claim], c *Claim) { m.ReadOwn(c, 3, 7, false, 4) }, false},
		"its client lost it":           {3, func(m *Machine[*Claim], c *Claim) { m.Lost(c) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			m, claim, notified := one(2)
			over := 0
			m.Over = func(*Claim) { over++ }
			m.Made(claim, "k", c.session, 7)
			c.end(m, claim)
			if n := *notified; len(n) != 1 || n[0].State != engine.Gone || n[0].Revoked != c.revoked {
				t.Errorf("told %+v, want once that it is gone, revoked: %v", n, c.revoked)
			}
			m.Left(claim) // late
			m.Ended(3)
			if over != 1 || len(*notified) != 1 || len(m.Claims) != 0 || m.Listening() != 0 {
				t.Errorf("forgotten %d times, told %d times, %d claims and %d nodes are known", over, len(*notified), len(m.Claims), m.Listening())
			}
		})
	}
}

// What goes on is not ended by what is of others, or by what nobody knows.
func TestWhatIsNotAClaimsOwnDoesNotEndIt(t *testing.T) {
	m, c, notified := one(2)
	m.Made(c, "k", 3, 7)
	m.Ended(4)
	m.Changed("other", Removed)
	m.Changed("k", Listed)
	m.ReadOwn(c, 3, 7, false, 0) // while no session is known to be alive
	if m.Read(c, View{Ticket: 7, Held: true}); c.Phase != Held || len(*notified) != 0 {
		t.Errorf("phase %d, told %+v", c.Phase, *notified)
	}
}

// A claim whose creation was not answered is read before anything is said of it: whose it
// is, and with which ticket.
func TestWhatTheAnswerDidNotSayIsRead(t *testing.T) {
	m, c, _ := one(2)
	m.Made(c, "k", 0, 0)
	if due := m.Take(c); due != Queue|Own {
		t.Errorf("%d is due, want its queue and its own node", due)
	}
	if got := m.Found(c); got.State != engine.Waiting {
		t.Errorf("before it was read it is %v, want waiting", got.State)
	}
	m.ReadOwn(c, 3, 7, false, 3)
	if m.Read(c, View{Ticket: 7, Held: true}); m.Report(c).Ticket != 7 {
		t.Errorf("ticket %d, want 7", m.Report(c).Ticket)
	}
}

// A claim that is given up while it is made is left as soon as it stands, and what comes of
// that is heard.
func TestWhatWasGivenUpWhileItWasMadeIsLeft(t *testing.T) {
	m, c, notified := one(2)
	if first, remove := m.Leave(c); !first || remove {
		t.Errorf("given up first: %v, removed before it stands: %v", first, remove)
	}
	if remove := m.Made(c, "k", 3, 7); !remove || c.Phase != Leaving {
		t.Errorf("to be removed: %v, phase %d, want %d", remove, c.Phase, Leaving)
	}
	if m.Left(c); c.Phase != Gone || len(m.Claims) != 0 || len(*notified) != 0 {
		t.Errorf("phase %d, %d claims, told %+v", c.Phase, len(m.Claims), *notified)
	}
}

// What a client knows of a claim's former incarnation, it does not know of the next.
func TestANewLifeIsToldAnew(t *testing.T) {
	m, c, notified := one(2)
	m.Made(c, "k", 1, 0)
	m.Read(c, View{Ticket: 7, Held: true, Contended: true})
	m.News(c)
	m.Read(c, View{Ticket: 9, Ahead: []Node{{Key: "a"}}})
	m.Contend(c, 7) // late
	if c.Contended {
		t.Error("who waited behind its former incarnation waits behind it")
	}
	m.Read(c, View{Ticket: 9, Held: true})
	m.News(c)
	if n := *notified; len(n) != 2 || n[1].State != engine.Held || n[1].Ticket != 9 || n[1].Contended {
		t.Errorf("told %+v, want at last that it holds with ticket 9", n)
	}
}

// Whoever relies on a watch that does not stand looks: at once, or with its next renewal
// where the store would refuse the watch again.
func TestWhoIsDeafLooks(t *testing.T) {
	for _, now := range []bool{true, false} {
		m, c, _ := one(2)
		polls := 0
		m.PollAfter = func(*Claim) { polls++ }
		m.Made(c, "k", 1, 7)
		m.Take(c)
		m.Read(c, View{Held: true})
		want := map[bool]int{true: 1}[now]
		if m.Deaf("q", true, now); m.Take(c) != Queue || polls != want {
			t.Errorf("at once: %v: its queue is not due, or it is looked at %d times, want %d", now, polls, want)
		}
		if m.Deaf("k", false, now); m.Take(c) != Own {
			t.Errorf("at once: %v: its own node is not due", now)
		}
	}
}

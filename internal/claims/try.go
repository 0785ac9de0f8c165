package claims

// An engine without order remembers nobody who waits. Who waits asks anew, by the
// same ID, whenever that is worthwhile (rule 9 of package engine): a try. It goes
// through Joining like the first Join of a claim, so a claim that is given up during a
// try is left behind it, and what it took meanwhile is taken by nobody.

// MaxTries is the most tries that are under way at once. Each is a call of its own,
// with a goroutine of the shell, and the waiting names of a client may be tens of
// thousands. Measured with 10,000 on one Redis: 14,000 tries a second with 100 at once,
// 18,000 with 1,000, and 13,000 with all, on twice the stacks.
const MaxTries = 1000

// try has a claim that waits ask anew when there is room for its call, first come,
// first served.
func (m *Machine) try(cl *Claim) {
	cl.tries = true
	m.schedule(cl)
	m.tries = append(m.tries, cl)
	m.tryNext()
}

func (m *Machine) tryNext() {
	for m.trying < m.maxTries && len(m.tries) > 0 {
		cl := m.tries[0]
		m.tries[0] = nil
		m.tries = m.tries[1:]
		if cl.phase != Waiting {
			cl.tries = false
			continue
		}
		m.trying++
		m.askAgain(cl)
	}
}

// tried: the Join of cl was answered, and may have been a try.
func (m *Machine) tried(cl *Claim) {
	if cl.tries {
		cl.tries = false
		m.trying--
		m.tryNext()
	}
}

// askAgain repeats the Join of a claim.
func (m *Machine) askAgain(cl *Claim) {
	m.to(cl, Joining)
	cl.poll = false
	m.schedule(cl)
	m.ask(cl)
}

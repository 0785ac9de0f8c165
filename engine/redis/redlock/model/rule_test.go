package model

// An id is what a master keeps as the owner of the name. 0 is nobody.
type id uint8

// A master is what one master remembers of the name.
type master struct {
	owner   id
	counter uint8 // the highest number it gave
	stamp   uint8 // the number it gave its owner, or 0
}

// A rule is how tokens are made: what a master does with the two requests, and
// what a client makes of the answers to the first. A master carries a request out
// in one step, as a script does.
type rule struct {
	// take is the first request, to every master. A master that says mine answers
	// its counter and its stamp, which acknowledges that number.
	take func(m *master, a id, hint uint8) (mine bool)
	// token is what a client asks for that has no majority of one stamp, and whose
	// highest answer was top.
	token func(top uint8) uint8
	// raise is the second request, to the masters that said mine.
	raise func(m *master, a id, token uint8) (ack bool)
}

// twoRounds only reads in its first round.
var twoRounds = rule{takeReading, next, raiseOwnedBelow}

// oneRound counts in its first round: where a majority answers the same number,
// there is no second round.
var oneRound = rule{takeCounting, same, raiseStamped}

// proposing gives in its first round what the client proposes.
var proposing = rule{takeProposing, next, raiseStamped}

func next(top uint8) uint8 { return top + 1 }
func same(top uint8) uint8 { return top }

func takeReading(m *master, a id, _ uint8) bool {
	if m.owner == 0 {
		m.owner = a
	}
	return m.owner == a
}

// takeCounting counts for a new owner only: a request that comes twice is
// answered with the number that the first one was.
func takeCounting(m *master, a id, hint uint8) bool {
	if m.owner == 0 {
		number := max(m.counter, hint) + 1
		*m = master{a, number, number}
	}
	return m.owner == a
}

func takeProposing(m *master, a id, proposal uint8) bool {
	if m.owner == 0 {
		m.owner, m.stamp = a, 0
		if proposal > m.counter {
			m.counter, m.stamp = proposal, proposal
		}
	}
	return m.owner == a
}

func raiseOwnedBelow(m *master, a id, token uint8) bool {
	if m.owner != a || m.counter >= token {
		return false
	}
	m.counter = token
	return true
}

// raiseStamped acknowledges a request that comes twice a second time.
func raiseStamped(m *master, a id, token uint8) bool {
	if m.owner != a || m.stamp != token && m.counter >= token {
		return false
	}
	m.counter, m.stamp = token, token
	return true
}

// takeAgain takes a master for a claim that was granted a token, and stamps it as
// raiseStamped does. Else there is no stamp: that was another's.
func takeAgain(m *master, a id, token uint8) {
	m.owner, m.stamp = a, 0
	raiseStamped(m, a, token)
}

// What is wrong, or right only in other company.

// takeGuessing answers what the next number would be, and does not write it down.
func takeGuessing(m *master, a id, _ uint8) bool {
	if m.owner == 0 {
		m.owner, m.stamp = a, m.counter+1
	}
	return m.owner == a
}

// takeKeeping leaves a new owner the stamp of the one before.
func takeKeeping(m *master, a id, proposal uint8) bool {
	if m.owner == 0 {
		m.owner = a
		raiseStamped(m, a, proposal)
	}
	return m.owner == a
}

func raiseUpTo(m *master, a id, token uint8) bool {
	if m.owner != a || m.counter > token {
		return false
	}
	m.counter = token
	return true
}

func raiseBelow(m *master, _ id, token uint8) bool {
	if m.counter >= token {
		return false
	}
	m.counter = token
	return true
}

// raiseMending puts a counter right that is far ahead.
func raiseMending(m *master, a id, token uint8) bool {
	if m.owner != a || m.stamp != token && m.counter >= token && m.counter < 3 {
		return false
	}
	m.counter, m.stamp = token, token
	return true
}

// raiseAnybodys stamps an owner with what another was given.
func raiseAnybodys(m *master, _ id, token uint8) bool {
	return raiseStamped(m, m.owner, token)
}

func raiseIfOwned(m *master, a id, token uint8) bool {
	if m.owner != a {
		return false
	}
	m.counter = max(m.counter, token)
	return true
}

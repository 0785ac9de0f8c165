package model

// An id is what a master keeps as the owner of the name. 0 is nobody.
type id uint8

// A master is what one master remembers of the name.
type master struct {
	owner   id
	counter uint8
}

// A rule is how tokens are made: what a master does with the two requests, and
// what a client makes of the answers to the first. A master carries a request out
// in one step, as a script does.
type rule struct {
	// take is the first request, to every master. A master that says mine answers
	// its counter.
	take func(m *master, a id, hint uint8) (mine bool)
	// early tells which of these answers acknowledge the token already.
	early early
	// token is what a client asks for whose highest answer was top.
	token func(top uint8) uint8
	// raise is the second request, to the masters that said mine.
	raise func(m *master, a id, token uint8) (ack bool)
}

type early uint8

const (
	never  early = iota
	ifTop        // the highest, and all that equal it
	always       // all
)

// twoRounds only reads in its first round.
var twoRounds = rule{takeReading, never, next, raiseOwnedBelow}

// oneRound counts in its first round: a master that answered the token itself has
// acknowledged it, and where a majority did so there is no second round.
var oneRound = rule{takeCounting, ifTop, same, raiseOwned}

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
		*m = master{a, max(m.counter, hint) + 1}
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

// raiseOwned acknowledges a request that comes twice a second time. With
// takeCounting it may: the counter of an owned master was given to its owner.
func raiseOwned(m *master, a id, token uint8) bool {
	if m.owner != a || m.counter > token {
		return false
	}
	m.counter = token
	return true
}

// Wrong ways to raise, or right in other company.

func raiseBelow(m *master, _ id, token uint8) bool {
	if m.counter >= token {
		return false
	}
	m.counter = token
	return true
}

func raiseIfOwned(m *master, a id, token uint8) bool {
	if m.owner != a {
		return false
	}
	m.counter = max(m.counter, token)
	return true
}

package redislock

import "leasehold/engine"

// notes is the socket of a subscription that stands, and what is done with what
// comes on it.
type notes struct {
	socket *noteSocket
	take   func(message []string) bool
}

var _ engine.Attender = (*Engine)(nil)

// Attend implements [engine.Attender].
func (e *Engine) Attend(over func() bool) {
	if n := e.notes.Load(); n != nil {
		n.socket.attend(over, n.take)
	}
}

// Interrupt implements [engine.Attender].
func (e *Engine) Interrupt() {
	if n := e.notes.Load(); n != nil {
		n.socket.interrupt()
	}
}

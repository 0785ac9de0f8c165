package engine

// Attender is an engine whose notes a caller that waits for one can receive
// itself. That a goroutine receives and wakes another costs more than everything
// else that a hand-over between two processes costs a client.
type Attender interface {
	// Attend hands what arrives to Watch's changed, in the calling goroutine. It
	// returns when over reports true, which it asks after every note and every
	// Interrupt; or for reasons of its own, also at once.
	Attend(over func() bool)

	// Interrupt has whoever is in Attend ask over.
	Interrupt()
}

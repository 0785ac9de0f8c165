package engine

// Attender is an engine whose notes a caller that waits for one can receive
// itself. In a process that does little but wait for its turn, the hop from the
// goroutine that receives to the one that waits wakes one more thread, so the core
// uses this for a caller who is the only one that waits in a client with few
// claims. It is never needed: Watch hears everything whether somebody attends or
// not. Both methods may be called at any time, also after Close.
type Attender interface {
	// Attend hands what arrives to Watch's changed, in the calling goroutine and
	// instead of Watch's. It asks over before it waits, after it has handed on
	// what arrived, and after every Interrupt, and returns when over reports true.
	// It may also return for reasons of its own, at once if need be: if Watch does
	// not run, or somebody attends already.
	Attend(over func() bool)

	// Interrupt has who is in Attend ask over; it must not be missed by one who
	// asked just before. It is also called inside changed, and does not block.
	Interrupt()
}

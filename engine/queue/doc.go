// Package queue is the queue of one name as a pure value: no clock, no
// goroutine, no I/O. Package queuestore loads one, applies one operation and
// stores it, in one step of whatever keeps it; engines that write the rule in a
// store's own language are checked against it.
//
// Every operation takes the engine's clock as now, a duration since any fixed
// moment, and returns the reply for the caller plus the notifications that others must
// be sent (rule 6 of package engine). The clock may be one that steps: back, and
// no claim stays longer than it asked to, counted from the first operation
// after the step; forward, and claims expire early, which nothing can mend.
//
// Held places are a prefix of the queue, so promoting it is one loop, Contended
// one comparison, and nothing ever moves back.
package queue

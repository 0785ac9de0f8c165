// Package queue is the queue of one name as a pure value: no clock, no goroutine, no I/O.
// Package queuestore loads a queue, applies one operation and stores it, in one step of
// its store. Engines that state the rule in the language of their store are checked
// against this package.
//
// Every operation takes the engine's clock as now, a duration since any fixed moment. It
// returns the reply for the caller, and the notifications for other clients (rule 6 of
// package engine). The clock may step. If it steps back, no claim stays longer than it
// asked to, counted from the first operation after the step. If it steps forward, claims
// expire early, which no code can prevent.
//
// Held places are a prefix of the queue. So promoting is one loop, Contended is one
// comparison, and no claim ever moves back.
package queue

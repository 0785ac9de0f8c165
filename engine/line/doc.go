// Package line is the line of one name as a pure value: no clock, no
// goroutine, no I/O. Package linestore loads one, applies one operation and
// stores it, in one step of whatever keeps it; engines that write the rule in a
// store's own language are checked against it.
//
// Every operation takes the engine's clock as now, a duration since any fixed
// moment that never goes back, and returns the reply for the caller plus the
// notes that others must be sent (rule 6 of package engine).
//
// Held places are a prefix of the line, so settling it is one loop, Contended
// one comparison, and nothing ever moves back.
package line

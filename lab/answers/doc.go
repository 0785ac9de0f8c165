// Package answers records the calls that several clients make of an engine at once, on a
// server of its own. The history is checked by package linear: some order of the calls must
// explain all answers by the rule of package queue.
//
//	go test ./lab/answers -answers.calls 100000 -v
//
// It differs from a trial of package torture. There are no faults, but calls are cancelled and
// engines are closed. All clients are in this process and call as fast as they can. So calls
// overlap far more often.
package answers

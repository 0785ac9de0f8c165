// Package claims is the client's half as a pure machine: which claims this
// process has, who in it waits for them, who holds, what is renewed, lost and
// given up. Package engine/queue is the other half.
//
// Nothing here runs, waits, or looks at a clock. Inputs are method calls that
// say what happened and when; outputs are values that say what is to be done.
// One shell (package leasehold) turns outputs into calls of the engine, wakes
// callers and cancels contexts, and turns answers into inputs:
//
//	  caller                                         engine
//	    | Enter, GiveUp, Unlock, Detach    Join, Renew, Leave ^
//	    v                                                     |
//	+--------------------------- shell ---------------------------+
//	    | input                                    output ^
//	    v                                                 |
//	+-------------------------- Machine --------------------------+
//	    ^ Joined, Renewed, Left, Notification, Began, Tick
//
// # A claim's phases
//
// A claim is in one phase, and data that means something in one phase only is
// said to in its field. The long way of a claim is down the middle; from every
// phase there is a way out to the right.
//
//	Indeterminate <---> Joining ----------> Cancelled ----+
//	   |             |                              |
//	   |          Waiting ------------------------+ |
//	   |             |                            | |
//	   |           Ready -----------------------+ | |
//	   |             |                          | | |
//	   |    +----> InUse -----> Draining ---+   | | |
//	   |    |     |  | | |                  |   | | |
//	   |   Proving <-+  | | +---> Lost --------|-+ | | |
//	   |    ^        | |                    | | | | |
//	   |    +- Idle <+ +-> Lingering -------|-+ | | |
//	   |         |                          | | | | |
//	   |         +--> Replaced       Releasing| | | |
//	   v                                    v v v v v
//	Abandoned ---> Gone <------------------- Leaving
//
// A claim begins as Joining; or as Indeterminate, before its Join was sent, where those
// before it were gone each time the engine was asked: then it is asked for after a
// pause, and forgotten if everybody gives up before that. One arrow goes up: a Ready
// claim that turns out to have been made anew waits again. [Phase] says what each
// means, and Phase.follows has every arrow.
//
// # Verbs
//
// One for each act, here and in the shell:
//
//	enter     a caller asks                  give up   it has waited long enough
//	join      ask the engine for a place     leave     give a place back to it
//	renew     prove a claim and extend it    hand off      one more lease of a claim in this process
//	advance   deliver what can be            share     let others have what one caller got for itself
//	drain     make no more leases of it      keep      hold for nobody, for a while
//	lose      end leases for good            linger    hold to the end of MinHold
//	forget    a claim that is gone           listen    renew often, to hear of others soon
//
// # What it promises
//
// The invariants of docs/design.md, for every order of inputs. explore_test.go
// goes through all orders in small worlds against engine/queue.
package claims

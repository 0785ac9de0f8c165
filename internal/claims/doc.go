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
// A claim is in one phase. A field that means something in one phase only says so. The
// usual ways:
//
//	the name is free          joining -> ready -> in use -> releasing -> gone
//	it has to wait            joining -> waiting -> ready -> in use
//	one more of this process  in use -> proving -> in use
//	idle for a while          in use -> idle -> in use
//	the lease is lost         in use -> lost -> leaving -> gone
//	nobody waits any more     joining -> cancelled -> leaving -> gone
//	the answer was lost       joining -> indeterminate -> joining
//	without order             joining -> waiting -> joining
//
// A claim begins as joining. If the claims before it were gone each time the engine was
// asked, it begins as indeterminate, before its Join is sent. The Join follows after a
// pause, or never if all callers give up before. These are the phases, and the phases that
// may follow each (Phase.follows, from which this is written):
//
//	joining       its Join is under way
//	              -> indeterminate, cancelled, waiting, ready, leaving, abandoned, gone
//	indeterminate its Join was not answered, or not sent yet (asked) since claims before it were gone time and again
//	              -> joining, abandoned, gone
//	cancelled     its Join is under way and nobody waits for it any more
//	              -> leaving, abandoned, gone
//	waiting       in the queue, with no room yet
//	              -> joining, ready, leaving, gone
//	ready         the engine holds it for this client and no lease was made of it yet
//	              -> waiting, in use, leaving, gone
//	in use        leases are open
//	              -> draining, proving, idle, lingering, lost, releasing, gone
//	draining      leases are open, all shared, and no further one is made of it, since somebody waits behind it
//	              -> lost, releasing
//	proving       held, its last lease has ended, and callers of this process wait until it is proven anew
//	              -> in use, replaced, leaving, gone
//	idle          held for nobody, until its until (Config.IdleTimeout)
//	              -> in use, proving, replaced, releasing, leaving, gone
//	lingering     held for nobody, until its until (Want.MinHold)
//	              -> leaving, gone
//	lost          its leases are lost and not all unlocked
//	              -> leaving, gone
//	replaced      the Join of another claim, under way, takes its place
//	              -> leaving, gone
//	releasing     the Leave of an Unlock is under way
//	              -> leaving, gone
//	leaving       given up; Leave is repeated until it is answered, or until its until, when the claim has certainly expired
//	              -> gone
//	abandoned     given up before its Join was answered
//	              -> leaving, gone
//	gone          forgotten
//
// # Verbs
//
// One for each act, here and in the shell:
//
//	enter     a caller asks                  give up   it has waited long enough; of a claim: nobody wants it any more
//	join      ask the engine for a place     leave     give a place back to it
//	try       ask again, who waits without order
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

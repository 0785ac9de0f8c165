// Package session is the pure half of engines whose claims live by sessions. It knows this
// client's claims, what to read and to watch, and whom to notify. It does no input and
// output, and knows no clock and no goroutine. An engine reports what it learned, in any
// order, late, twice or never, and the package says what to do.
//
//	Making --made--> Placed --read--> Waiting --read--> Held --lasts--> Settled
//	  |                 \________________\_______________\______ ... marked --> Marked
//	 left                                       any of them: left --> Leaving --> Gone
//	  v                                         any of them: its session ends --> Gone
//	Unwanted --made--> Leaving                  any of them: removed by somebody --> Revoked
//
// A claim has one phase, which only goes on, unless its store made it anew (see
// Claim.Ticket). Beside the phase it has [Due]: something that was known has changed, or
// may have. A reader clears Due first and sets it again if the read fails, so that a
// change in between is read once more.
//
// The package promises, for any order of inputs, which its tests explore:
//
//   - A claim is Held only if the store had it within the limit after it was asked for.
//   - A claim that was given up stands in the store no longer than until the next answer.
//   - A claim ends once. Its client is notified, or asked for the end.
//   - A claim whose turn has come holds once the engine has read all that is due.
//
// [Classes] are the sessions of a client, one for each class of TTL in use.
package session

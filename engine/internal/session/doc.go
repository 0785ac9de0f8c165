// Package session is the pure half of engines whose claims live by sessions: what this
// client's claims are, what has to be looked at, what to watch, and whom to notify. It
// does no input and output, and knows no clock and no goroutine: what an engine heard
// goes in, in any order, late, twice or never, and what is to be done comes out.
//
//	Making --made--> Placed --read--> Waiting --read--> Held --lasts--> Settled
//	  |                 \________________\_______________\______ ... marked --> Marked
//	 left                                       any of them: left --> Leaving --> Gone
//	  v                                         any of them: its session ends --> Gone
//	Unwanted --made--> Leaving                  any of them: removed by somebody --> Revoked
//
// A claim has one phase, which only goes on, unless its store made it anew (see
// Claim.Ticket). Beside it stands what is due ([Due]): what was known has changed, or
// may have. Whoever looks clears that first and sets it again where the look failed, so
// that what comes in between is looked at once more.
//
// What it promises of any order of inputs, which its tests explore:
//
//   - A claim is Held only if the store had it within the limit after it was asked for.
//   - What was given up stands in the store no longer than until the next answer.
//   - Whatever ends a claim ends it once, and its client is told, or asked for it.
//   - A claim whose turn has come holds once all that is due was looked at.
//
// [Classes] are the sessions of a client, one for each class of TTL in use.
package session

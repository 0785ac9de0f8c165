package torture

import (
	"time"

	"leasehold/torture/history"
)

// The witness and a client write JSON to each other, a message per line.

// job is the first message to a client: what it is, and what it does until it is told to
// end.
type job struct {
	Client  string
	Number  int64  // of the client: its calls are numbered from callsOf(Number)
	Group   string // the control group to enter; empty: none
	URL     string
	TTL     time.Duration
	Think   time.Duration // between calls of the engine itself
	Seed    uint64
	Names   []name
	Raw     []string // names for calls of the engine itself: see inRound
	Round   int      // of those names, to begin with
	Fencing bool     // tokens mean something
	Detach  bool
}

// name is one lock of the trial.
type name struct {
	Name  string
	Limit int32 // engine.Max: locked exclusively and shared
	Share bool  // shared leases are possible
}

// callsOf is the number before the first call of a client.
func callsOf(number int64) int64 { return number * 1_000_000_000 }

// said is a message of a client.
type said struct {
	// Ask, unless 0, is the number of this question: the client waits for told.Answer.
	Ask int64 `json:"ask,omitempty"`

	Event  *history.Event `json:"event,omitempty"`  // the witness stamps it
	Shared bool           `json:"shared,omitempty"` // the lease of a Read is shared
	Handle string         `json:"handle,omitempty"` // with the Answer of a Detach: a secret

	// Mark is the Ask of a Mark: the lease was valid after the answer to that, or was not.
	Mark  int64 `json:"mark,omitempty"`
	Valid bool  `json:"valid,omitempty"`

	Down  string `json:"down,omitempty"`  // the engine does not answer
	Pong  int64  `json:"pong,omitempty"`  // the answer to told.Ping
	Ready bool   `json:"ready,omitempty"` // the client has opened the engine, and begins
}

// told is a message to a client.
type told struct {
	Job    *job  `json:"job,omitempty"`
	Answer int64 `json:"answer,omitempty"` // to said.Ask
	Value  int64 `json:"value,omitempty"`  // of a resource
	Stale  bool  `json:"stale,omitempty"`  // it refused the token
	Round  int   `json:"round,omitempty"`  // of the names for calls of the engine itself

	Adopt *adoption `json:"adopt,omitempty"`
	Ping  int64     `json:"ping,omitempty"`
	End   bool      `json:"end,omitempty"` // unlock everything, close, and exit
}

// adoption is a detached lease that a client is to adopt.
type adoption struct {
	Of     int64
	Name   string
	Handle string
}

package engine

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"time"
)

// Bounds that every request keeps: what is outside does not reach an engine.
const (
	Max         = math.MaxInt32 // permits of an exclusive claim, and its limit
	MaxName     = 512           // bytes of a name
	MaxOwner    = 1024          // bytes of an owner, as [Owner.Text] writes it
	MaxQueue    = 10_000        // claims in one queue
	MaxBatch    = 10_000        // renewals or claims in one call
	MinTTL      = 100 * time.Millisecond
	MaxTTL      = 24 * time.Hour
	MaxTicket   = 1<<53 - 1 // so that ticket << HandoffBits stays below 2^63
	HandoffBits = 10        // token = ticket << HandoffBits + handoffs
)

// ID names a claim to its owner alone. It is secret: whoever knows it may
// renew and leave the claim.
type ID [16]byte

// NewID draws 128 random bits.
func NewID() (id ID) {
	rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return id
}

// ParseID reads what [ID.Secret] wrote.
func ParseID(s string) (id ID, err error) {
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("claim ID: want %d hexadecimal digits, got %d bytes", 2*len(id), len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("claim ID: %w", err)
	}
	return id, nil
}

// Secret is the ID as 32 hexadecimal digits, for engines to store.
func (id ID) Secret() string { return hex.EncodeToString(id[:]) }

// String hides the ID, so that no log can leak one.
func (id ID) String() string {
	if id == (ID{}) {
		return "no ID"
	}
	return "ID (secret)"
}

// GoString hides the ID from %#v as well.
func (id ID) GoString() string { return id.String() }

// State is what is known of a claim. It only rises, and reports of one ID
// merge by max.
type State uint8

const (
	Unknown State = iota // nothing learned
	Waiting              // in the queue, no room yet
	Held                 // within the limit
	Gone                 // left, expired, revoked, refused, or never there
)

func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Waiting:
		return "waiting"
	case Held:
		return "held"
	case Gone:
		return "gone"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Request asks for a place in a queue.
type Request struct {
	Name  string // valid UTF-8, 1 to MaxName bytes, no NUL
	ID    ID     // chosen by the caller, fresh for every claim
	Owner Owner  // shown to whoever inspects the queue

	Permits int32 // 1 to Limit
	Limit   int32 // 1 to Max; every claim in a queue must agree

	// WaitTTL is the claim's first lifetime, from MinTTL to MaxTTL. An engine
	// may grant more.
	WaitTTL time.Duration

	// TTL is the lifetime that Renew will ask for once the claim is held, from
	// [Guarantees].MinTTL to MaxTTL; 0: the same as WaitTTL. Engines whose claims
	// live by sessions choose the session by it; others need not look.
	TTL time.Duration

	NoWait   bool // held at once, or Gone with nothing left behind
	Detached bool // outlives its client; ends by its TTL alone

	// Replaces, unless empty, is a claim of this client on the same name to
	// leave in the same step. Not together with NoWait.
	Replaces ID
}

// Renewal asks for more time for one claim.
type Renewal struct {
	Name string
	ID   ID
	Want time.Duration // lifetime from now on, MinTTL to MaxTTL
}

// Claim is a place in a queue as some call found it.
type Claim struct {
	Name   string
	ID     ID // empty in a Queue
	Ticket uint64
	Owner  Owner // filled in a Queue; elsewhere it may be empty

	Permits, Limit int32
	State          State

	// Contended: somebody waits behind this claim, or was refused with NoWait
	// because of it. It means something for held claims only.
	Contended bool

	// Revoked: the claim was ended by Revoke. In a Queue, where a marked holder
	// still stands as Held: its room is not free yet.
	Revoked bool

	// TTL is what was granted, from the start of the call. In a Queue it is what
	// is left; 0 there: the hold has no expiry, which only other programs make
	// (see the plain layout of Redis).
	TTL time.Duration

	// PollAfter is how long until looking again is worthwhile if nothing is heard.
	// For the first waiter it is the earliest time at which expiry alone makes
	// room; a polling engine returns its interval by place. Whoever has advice
	// looks after a second at the latest. 0: no advice, which should mean that
	// it is not next or that notifications do not get lost; it polls every four seconds,
	// or every second where the engine has no order.
	PollAfter time.Duration
}

// Queue is one name's queue as inspection shows it.
type Queue struct {
	Name   string
	Limit  int32 // 0 if nobody is in the queue
	Claims []Claim
}

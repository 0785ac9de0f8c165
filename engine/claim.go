package engine

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// These bounds hold for every request: nothing outside them reaches an engine.
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

// ID identifies a claim to its owner alone. It is secret: its owner can renew and leave
// the claim.
type ID [16]byte

// NewID returns 128 random bits.
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

// Secret returns the ID as 32 hexadecimal digits, for engines to store.
func (id ID) Secret() string { return hex.EncodeToString(id[:]) }

// String hides the ID, so that no log can leak one.
func (id ID) String() string {
	if id == (ID{}) {
		return "no ID"
	}
	return "ID (secret)"
}

// GoString hides the ID from %#v too.
func (id ID) GoString() string { return id.String() }

// LogValue hides the ID from every handler of log/slog, also from those that write JSON. A
// struct shows it: encoding/json writes its bytes, so that engines can send a claim.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }

// State is what is known of a claim. It only rises: of two reports about one ID the
// larger counts.
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
	ID    ID     // chosen by the core, fresh for every claim
	Owner Owner  // shown to anybody who inspects the queue

	Permits int32 // 1 to Limit
	Limit   int32 // 1 to Max; every claim in a queue must agree

	// WaitTTL is the claim's first lifetime, from MinTTL to MaxTTL. An engine
	// may grant more.
	WaitTTL time.Duration

	// TTL is the lifetime that Renew will ask for once the claim is held, from
	// [Guarantees].MinTTL to MaxTTL; 0 means the same as WaitTTL. Engines whose claims
	// live by sessions choose the session by it; other engines need not read it.
	TTL time.Duration

	NoWait   bool // held at once, or Gone with nothing left behind
	Detached bool // outlives its client; ends by its TTL alone

	// Replaces, unless empty, is a claim of this client on the same name, which the
	// engine leaves in the same step. It excludes NoWait.
	Replaces ID
}

// Renewal asks for more time for one claim.
type Renewal struct {
	Name string
	ID   ID
	Want time.Duration // lifetime from now on, MinTTL to MaxTTL
}

// Claim is a place in a queue as one call found it.
type Claim struct {
	Name   string
	ID     ID // empty in a Queue
	Ticket uint64
	Owner  Owner // filled in a Queue; elsewhere it may be empty

	Permits, Limit int32
	State          State

	// Contended means that somebody waits behind this claim, or was refused with NoWait
	// because of it. It means something for held claims only.
	Contended bool

	// Revoked means that Revoke ended the claim. In a Queue a marked holder is still
	// Held: its permits are not free yet.
	Revoked bool

	// TTL is the time granted, from the start of the call. In a Queue it is the time
	// left. 0 there means a hold without expiry, which only other programs make (see
	// the plain layout of Redis).
	TTL time.Duration

	// PollAfter is advice: poll after this time if no notification comes. For the first
	// waiter it is the earliest time at which expiry alone makes room. A polling engine
	// returns its interval by place. With advice the core polls within a second at the
	// latest. 0 is no advice: the waiter is not the next, or notifications do not get
	// lost. The core then polls every four seconds, or every second if the engine has
	// no order.
	PollAfter time.Duration
}

// Queue is the queue of one name as inspection shows it.
type Queue struct {
	Name   string
	Limit  int32 // 0 if the queue is empty
	Claims []Claim
}

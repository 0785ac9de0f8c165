package remote

import (
	"time"

	"leasehold/engine"
)

// Version is that of the calls. Both ends must have the same.
const Version = 1

// Paths of the calls.
const (
	PathOpen   = "/v1/engine/open"
	PathJoin   = "/v1/engine/join"
	PathRenew  = "/v1/engine/renew"
	PathLeave  = "/v1/engine/leave"
	PathQueue  = "/v1/engine/queue"
	PathQueues = "/v1/engine/queues"
	PathRevoke = "/v1/engine/revoke"
	PathCheck  = "/v1/engine/check"
	PathWatch  = "/v1/engine/watch"
)

// MaxBatch bounds the items of one call. The caller makes several of a larger batch.
const MaxBatch = 1000

// KeepAlive is how often the service writes an empty line to a Watch that has nothing to
// say. A caller that reads nothing for three times as long takes the connection for dead.
const KeepAlive = 5 * time.Second

// Opening is what a service says of its engine.
type Opening struct {
	Version    int               `json:"version"`
	Guarantees engine.Guarantees `json:"guarantees"`
	Checks     bool              `json:"checks"` // whether it can be asked to check
}

// JoinCall asks for a place.
type JoinCall struct {
	Client   string        `json:"client"` // whose Watch is told of changes
	Name     string        `json:"name"`
	ID       string        `json:"id"`
	Owner    engine.Owner  `json:"owner"`
	Permits  int32         `json:"permits"`
	Limit    int32         `json:"limit"`
	WaitTTL  time.Duration `json:"wait_ttl"`
	TTL      time.Duration `json:"ttl,omitempty"`
	NoWait   bool          `json:"no_wait,omitempty"`
	Detached bool          `json:"detached,omitempty"`
	Replaces string        `json:"replaces,omitempty"`
}

// JoinAnswer is the place, or why there is none.
type JoinAnswer struct {
	Claim   *Claim   `json:"claim,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// RenewCall asks for more time.
type RenewCall struct {
	Client string    `json:"client"`
	Items  []Renewal `json:"items"`
}

// Renewal is one of them.
type Renewal struct {
	Name string        `json:"name"`
	ID   string        `json:"id"`
	Want time.Duration `json:"want"`
}

// LeaveCall gives claims up.
type LeaveCall struct {
	Client string `json:"client"`
	Items  []Left `json:"items"`
}

// Left is one of them.
type Left struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// BatchAnswer is what was learned, and the first error. A claim that is missing: nothing
// was learned of it.
type BatchAnswer struct {
	Claims  []Claim  `json:"claims"`
	Problem *Problem `json:"problem,omitempty"`
}

// NameCall reads a queue, or all whose names begin so.
type NameCall struct {
	Name string `json:"name"`
}

// QueueAnswer is one queue.
type QueueAnswer struct {
	Name    string   `json:"name,omitempty"`
	Limit   int32    `json:"limit,omitempty"`
	Claims  []Claim  `json:"claims,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
	End     bool     `json:"end,omitempty"` // of a listing: all was sent
}

// RevokeCall ends somebody's claim.
type RevokeCall struct {
	Name   string `json:"name"`
	Ticket uint64 `json:"ticket,string"`
	Now    bool   `json:"now,omitempty"`
}

// Answer is that of a call without a result.
type Answer struct {
	Problem *Problem `json:"problem,omitempty"`
}

// WatchCall subscribes a client. Its next one ends this one.
type WatchCall struct {
	Client string `json:"client"`
}

// Notification says that a claim changed; without a Claim that the subscription has begun,
// or that any may have.
type Notification struct {
	Claim *Claim `json:"claim,omitempty"`
}

// Claim is engine.Claim.
type Claim struct {
	Name      string        `json:"name,omitempty"`
	ID        string        `json:"id,omitempty"`
	Ticket    uint64        `json:"ticket,string,omitempty"`
	Owner     *engine.Owner `json:"owner,omitempty"`
	Permits   int32         `json:"permits,omitempty"`
	Limit     int32         `json:"limit,omitempty"`
	State     engine.State  `json:"state"`
	Contended bool          `json:"contended,omitempty"`
	Revoked   bool          `json:"revoked,omitempty"`
	TTL       time.Duration `json:"ttl,omitempty"`
	PollAfter time.Duration `json:"poll_after,omitempty"`
}

// Request is what r asks of an engine.
func (r *JoinCall) Request() (engine.Request, error) {
	id, err := engine.ParseID(r.ID)
	if err != nil {
		return engine.Request{}, engine.Refuse("%w", err)
	}
	q := engine.Request{
		Name: r.Name, ID: id, Owner: r.Owner, Permits: r.Permits, Limit: r.Limit,
		WaitTTL: r.WaitTTL, TTL: r.TTL, NoWait: r.NoWait, Detached: r.Detached,
	}
	if r.Replaces != "" {
		if q.Replaces, err = engine.ParseID(r.Replaces); err != nil {
			return engine.Request{}, engine.Refuse("%w", err)
		}
	}
	return q, nil
}

// CallOf is a request of a client.
func CallOf(client string, q *engine.Request) *JoinCall {
	r := &JoinCall{
		Client: client, Name: q.Name, ID: q.ID.Secret(), Owner: q.Owner, Permits: q.Permits, Limit: q.Limit,
		WaitTTL: q.WaitTTL, TTL: q.TTL, NoWait: q.NoWait, Detached: q.Detached,
	}
	if q.Replaces != (engine.ID{}) {
		r.Replaces = q.Replaces.Secret()
	}
	return r
}

// ClaimOf is a claim for the wire.
func ClaimOf(c engine.Claim) Claim {
	w := Claim{
		Name: c.Name, Ticket: c.Ticket, Permits: c.Permits, Limit: c.Limit, State: c.State,
		Contended: c.Contended, Revoked: c.Revoked, TTL: c.TTL, PollAfter: c.PollAfter,
	}
	if c.ID != (engine.ID{}) {
		w.ID = c.ID.Secret()
	}
	if o := c.Owner; o.Host != "" || o.PID != 0 || o.Label != "" || !o.Since.IsZero() || len(o.Holds) > 0 {
		w.Owner = &c.Owner
	}
	return w
}

// ClaimsOf are claims for the wire.
func ClaimsOf(cs []engine.Claim) []Claim {
	ws := make([]Claim, len(cs))
	for i, c := range cs {
		ws[i] = ClaimOf(c)
	}
	return ws
}

// Engine is the claim that came over the wire. An ID that is none is the zero ID.
func (w *Claim) Engine() engine.Claim {
	c := engine.Claim{
		Name: w.Name, Ticket: w.Ticket, Permits: w.Permits, Limit: w.Limit, State: w.State,
		Contended: w.Contended, Revoked: w.Revoked, TTL: w.TTL, PollAfter: w.PollAfter,
	}
	if w.ID != "" {
		c.ID, _ = engine.ParseID(w.ID)
	}
	if w.Owner != nil {
		c.Owner = *w.Owner
	}
	return c
}

// Engines are the claims that came over the wire.
func Engines(ws []Claim) []engine.Claim {
	cs := make([]engine.Claim, len(ws))
	for i := range ws {
		cs[i] = ws[i].Engine()
	}
	return cs
}

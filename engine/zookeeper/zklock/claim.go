package zklock

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

// claim is one claim of this client: what the machine knows of it, and what is under
// way for it. Its key is the path of its node, its queue that of its name's.
type claim struct {
	session.Claim
	uuid    string        // by which its own node is known
	ttl     time.Duration // what it is granted
	class   *class        // which it uses until it is forgotten
	made    chan struct{} // closed when it is known what its creation came to
	removed chan struct{} // closed when it is known that it has no node any more, or will have one
	looking chan struct{} // holds one thing while somebody looks (see look)

	// Under the engine's mutex.
	err     error   // why there never was a node
	left    error   // why its node could not be removed, or errNotThere
	version int32   // of the node's data
	first   *listed // the queue as of its creation, until somebody looks
	alone   bool    // a list of the queue had no other node
	follows bool    // its number is the next after a vacancy
	vacancy *vacancy
}

func newClaim(r engine.Request, queue string, ttl time.Duration, class *class) *claim {
	return &claim{Claim: session.Claim{Request: r, Queue: queue}, uuid: uuidOf(r.ID), ttl: ttl, class: class,
		made: make(chan struct{}), removed: make(chan struct{}), looking: make(chan struct{}, 1)}
}

// node is the name of its node.
func (c *claim) node() string { return c.Key[len(c.Queue)+1:] }

// uuidOf names the node of a claim. The ID itself is a secret, and a user who may list
// the queue sees the name.
func uuidOf(id engine.ID) string {
	h := sha256.Sum256(append([]byte("leasehold node "), id[:]...))
	h[6] = h[6]&0x0f | 0x80 // version 8 of RFC 9562: of one's own making
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// content is the data of a node of ours.
type content struct {
	Claim   string       `json:"claim"` // its uuid: the plain layout has none in the name
	Owner   engine.Owner `json:"owner"`
	Revoked bool         `json:"evicted,omitempty"`
	TTL     int64        `json:"ttl,omitempty"` // milliseconds, that it is granted
}

// ttl is what a claim of ours says that it is granted, and the most for others.
func (c *content) ttl(most time.Duration) time.Duration {
	if c.TTL < 1 || c.TTL > most.Milliseconds() {
		return most
	}
	return time.Duration(c.TTL) * time.Millisecond
}

// content is that of its node.
func (c *claim) content() []byte {
	return (&content{Claim: c.uuid, Owner: c.Owner, TTL: c.ttl.Milliseconds()}).bytes()
}

func (c *content) bytes() []byte {
	b, err := json.Marshal(c)
	if err != nil { // a time that JSON cannot have
		c.Owner.Since = c.Owner.Since.AddDate(-c.Owner.Since.Year(), 0, 0)
		b, _ = json.Marshal(c)
	}
	return b
}

// revoke is what Curator writes into a node to ask its holder to let go.
const revoke = "__REVOKE__"

// read takes in the data of any node: of another program it shows as a label, as
// Curator's own address does.
func read(data []byte) content {
	var c content
	if json.Unmarshal(data, &c) == nil && c.Claim != "" && c.Owner.Fits() {
		return c
	}
	label := "another program"
	if len(data) > 0 {
		label += ": " + strings.ToValidUTF8(string(data[:min(len(data), maxShown)]), "\uFFFD")
	}
	return content{Owner: engine.Owner{Label: label}, Revoked: string(data) == revoke}
}

// maxShown is how many bytes of somebody else's data are shown.
const maxShown = 256

package zklock

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"leasehold/engine"
)

// claim is one claim of this client. Its fields belong to the engine's mutex, but
// for those above the blank lineine, which never change.
type claim struct {
	request engine.Request
	parent  string        // the node of the name
	uuid    string        // by which its own node is known
	made    chan struct{} // closed when it is known what its creation came to
	removed chan struct{} // closed when it is known that it has no node any more
	looking chan struct{} // holds one thing while somebody looks (see look)

	phase    phase
	err      error  // gone: why there never was a node
	left     error  // gone: why its node could not be removed, or errNotThere
	revoked  bool   // gone: somebody else removed its node
	admitted bool   // its place in the queue was not refused
	dropped  bool   // making: nobody wants it any more: what is made is to be removed
	node     string // name of its node, below parent
	session  int64  // whose node it is
	version  int32  // of the node's data
	ticket   uint64

	unheard   bool // it became held, and its client was not told
	contended bool // as the last list, or a watch since, had it
	notified  bool // its client knows that it is contended
	stale     bool // the queue has changed since it was listed
	unread    bool // its own node has changed since it was read

	first *listed // the queue as of its creation, until somebody looks

	lasts bool  // it has held for so long that it is to hear of what happens behind it
	seen  int64 // holding, until that is so: the last change of the queue when it was listed

	owes bool // it must write to its node, for whoever waits behind (see nodes.Queue.Wakes)

	watches string // waiting: path of the node that it watches, or parent
}

// phase is what has become of a claim. The engine's map has those that are not
// gone.
type phase uint8

const (
	making  phase = iota // its node is being created; nobody knows yet whether there is one
	waiting              // its node stands in the queue
	holding              // and is among the first
	marked               // somebody revoked it: its node stands until it is left
	leaving              // its node is being removed
	gone                 // it has none any more
)

func (c *claim) path() string { return c.parent + "/" + c.node }

// placed: it has a node that stands in the queue, as far as is known.
func (c *claim) placed() bool { return c.phase == waiting || c.phase == holding || c.phase == marked }

// uuidOf names the node of a claim. The ID itself is a secret, and whoever may list
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

// Package handle is the text of a detached lease: what Lease.Detach and a service give out,
// and what Client.Adopt and the service take. It authorises its owner to renew and end
// the claim.
package handle

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"leasehold/engine"
)

// Prefix begins every handle.
const Prefix = "leasehold1."

// Body is what a handle says.
type Body struct {
	Name    string        `json:"n"`
	ID      engine.ID     `json:"-"`
	Secret  string        `json:"i"` // the ID, as text
	Token   uint64        `json:"t,string"`
	Permits int32         `json:"u"`
	Limit   int32         `json:"l"`
	TTL     time.Duration `json:"d"`
	Keyed   bool          `json:"k,omitempty"` // another claim may have the ID later: Token tells them apart
}

// Err is for text that is no handle.
var Err = errors.New("this is no handle")

// Text is the handle of b. Secret is filled in.
func (b Body) Text() (string, error) {
	b.Secret = b.ID.Secret()
	body, err := json.Marshal(b)
	if err != nil {
		return "", err // a valid name always marshals
	}
	return Prefix + base64.RawURLEncoding.EncodeToString(body), nil
}

// Parse reads a handle. It returns [Err], or why no claim can be what the handle says.
func Parse(text string) (b Body, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(text), Prefix)
	if !ok {
		return b, Err
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &b) != nil {
		return b, Err
	}
	if b.ID, err = engine.ParseID(b.Secret); err != nil {
		return b, Err
	}
	r := engine.Request{Name: b.Name, ID: b.ID, Permits: b.Permits, Limit: b.Limit, WaitTTL: b.TTL}
	return b, r.Check()
}

package filelock

import (
	"encoding/binary"
	"time"

	"leasehold/engine"
)

// Owners stand in the file of the name, beside their claim: they then change
// in the same step, outlive a client that left a detached claim, and cost one
// copy of some sixty bytes, where a file of their own would cost a system call
// for every Join.

// maxOwnerSize bounds an encoded owner. The request was checked to have at
// most MaxOwner bytes as JSON, which is never shorter than this, except for
// the time: a year JSON cannot write still has its 16 bytes here.
const maxOwnerSize = engine.MaxOwner + 64

func appendOwner(b []byte, o *engine.Owner) []byte {
	b = appendText(b, o.Host)
	b = binary.AppendVarint(b, int64(o.PID))
	b = appendText(b, o.Label)
	if since, err := o.Since.MarshalBinary(); err == nil && !o.Since.IsZero() {
		b = appendText(b, string(since))
	} else {
		b = appendText(b, "")
	}
	for _, h := range o.Holds {
		b = appendText(b, h.Name)
		b = binary.AppendUvarint(b, h.Ticket)
	}
	return b
}

// parseOwner reads what appendOwner wrote. An owner is only ever shown, so
// that a part that cannot be read is left out.
func parseOwner(s string) (o engine.Owner) {
	r := reader{s: s}
	o.Host = r.text(maxOwnerSize)
	pid := r.uvarint(1<<64 - 1)
	o.PID = int(pid>>1) ^ -int(pid&1)
	o.Label = r.text(maxOwnerSize)
	if since := r.text(32); since != "" {
		var t time.Time
		if t.UnmarshalBinary([]byte(since)) == nil {
			o.Since = t
		}
	}
	for r.more() {
		h := engine.Hold{Name: r.text(engine.MaxName), Ticket: r.uvarint(1<<64 - 1)}
		if !r.bad {
			o.Holds = append(o.Holds, h)
		}
	}
	return o
}

package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Owner says who made a claim, for people who inspect a queue and for the search for
// deadlocks. The client says it of itself: it is untrusted, and never a reason to grant
// or expire anything. Escape it before it reaches a terminal.
type Owner struct {
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Label string    `json:"label,omitempty"`
	Since time.Time `json:"since,omitzero"` // when the client asked, by its own clock
	Holds []Hold    `json:"holds,omitempty"`
}

// Hold identifies a claim to everybody. It authorises nothing.
type Hold struct {
	Name   string `json:"name"`
	Ticket uint64 `json:"ticket,string"` // a string: JSON readers lose digits of large numbers

	// Elsewhere means a claim of another client of the same process, perhaps on another
	// engine. There the claim has the owner's host and process.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Text returns the owner as engines store it: JSON. [Request.Check] bounds it.
//
// Every Join writes one, so it writes the usual owner, of plain ASCII, without
// reflection. The result is the same.
func (o Owner) Text() string {
	var room [256]byte // of most owners
	return string(o.AppendText(room[:0]))
}

// AppendText appends Text to b.
func (o *Owner) AppendText(b []byte) []byte {
	if o.isPlain() {
		return o.appendPlain(b)
	}
	return append(b, o.json()...)
}

func (o *Owner) isPlain() bool {
	for i := range o.Holds {
		if !plain(o.Holds[i].Name) {
			return false
		}
	}
	return plain(o.Host) && plain(o.Label) && !o.Since.IsZero() && o.Since.Year() > 0 && o.Since.Year() < 10_000
}

// plain reports whether JSON writes s as it is.
func plain(s string) bool { return escaped(s) == len(s) }

func (o Owner) json() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		// Only a time outside the years 0 to 9999 cannot be written.
		o.Since = time.Time{}
		b, _ = json.Marshal(o)
	}
	return b
}

func (o *Owner) appendPlain(b []byte) []byte {
	b = append(b, '{')
	if o.Host != "" {
		b = append(b, `"host":"`...)
		b = append(b, o.Host...)
		b = append(b, `",`...)
	}
	if o.PID != 0 {
		b = append(b, `"pid":`...)
		b = strconv.AppendInt(b, int64(o.PID), 10)
		b = append(b, ',')
	}
	if o.Label != "" {
		b = append(b, `"label":"`...)
		b = append(b, o.Label...)
		b = append(b, `",`...)
	}
	b = append(b, `"since":"`...)
	b = o.Since.AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	for i, h := range o.Holds {
		if i == 0 {
			b = append(b, `,"holds":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"name":"`...)
		b = append(b, h.Name...)
		b = append(b, `","ticket":"`...)
		b = strconv.AppendUint(b, h.Ticket, 10)
		b = append(b, '"')
		if h.Elsewhere {
			b = append(b, `,"elsewhere":true`...)
		}
		b = append(b, '}')
	}
	if len(o.Holds) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// Fits reports whether Text has at most MaxOwner bytes. Most owners are plainly small:
// Fits encodes only an owner that may not be.
func (o *Owner) Fits() bool {
	const fixed, hold, escape = 100, 70, 6 // bytes of field names, numbers and the time; of a byte at most
	most := fixed + escape*(len(o.Host)+len(o.Label))
	for i := range o.Holds {
		most += hold + escape*len(o.Holds[i].Name)
	}
	return most <= MaxOwner || len(o.Text()) <= MaxOwner
}

// escaped returns the most bytes that s takes in JSON: plain ASCII stays as it is,
// anything else may become \u and four digits for each byte.
func escaped(s string) int {
	n := len(s)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			n += 5
		}
	}
	return n
}

// ParseOwner reads what [Owner.Text] wrote. Any other text becomes the label, so that
// inspection still shows it.
func ParseOwner(text string) Owner {
	var o Owner
	if text == "" {
		return o
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return Owner{Label: text}
	}
	return o
}

// String returns host, process and label, unescaped.
func (o Owner) String() string {
	who := o.Host
	if o.PID != 0 { // the caller of a service has none
		who = fmt.Sprintf("%s pid %d", o.Host, o.PID)
	}
	switch {
	case who == "":
		return o.Label
	case o.Label == "":
		return who
	}
	return fmt.Sprintf("%s (%s)", who, o.Label)
}

package claims

import (
	"fmt"
	"strings"
	"time"
)

// String is every claim in a queue, in the order of making, for people.
func (m *Machine) String() string {
	var b strings.Builder
	for _, cl := range m.inOrder() {
		due := "not due"
		if cl.index >= 0 {
			due = fmt.Sprint("due ", max(cl.due, m.at))
		}
		fmt.Fprintf(&b, "%q ticket %d %v, %d users, trusted until %v, %s, callers wait: %v\n",
			cl.Name(), cl.ticket, cl.phase, cl.users, cl.trustedUntil(), due, cl.callers.current == cl && cl.callers.head != nil)
	}
	return b.String()
}

// Step is one line of a machine's history: an input, a claim's change of phase,
// or an output.
type Step struct {
	At     time.Duration // of the input that it belongs to
	Name   string        // empty: of no one name
	Ticket uint64        // 0: not known yet
	Text   string
}

func (m *Machine) traceInput(now time.Duration, what, name string, ticket uint64) {
	if m.cfg.Trace != nil {
		m.at = now
		m.cfg.Trace(Step{At: now, Name: name, Ticket: ticket, Text: "in: " + what})
	}
}

func (m *Machine) tracePhase(cl *Claim, to Phase) {
	m.cfg.Trace(Step{At: m.at, Name: cl.Name(), Ticket: cl.ticket, Text: fmt.Sprintf("%v -> %v", cl.phase, to)})
}

func (m *Machine) traceOutput(o *Output) {
	s := Step{At: m.at, Text: "out: " + o.Act.String()}
	switch cl := o.Claim; {
	case cl != nil:
		s.Name, s.Ticket = cl.Name(), cl.ticket
	case o.Lease != nil:
		s.Name, s.Ticket = o.Lease.claim.Name(), o.Lease.claim.ticket
	case o.Caller != nil:
		s.Name = o.Caller.Name
	}
	if o.Reason != OK {
		s.Text += ": " + o.Reason.String()
	}
	if o.Want > 0 {
		s.Text += fmt.Sprintf(" for %v", o.Want)
	}
	if o.Err != nil {
		s.Text += ": " + o.Err.Error()
	}
	m.cfg.Trace(s)
}

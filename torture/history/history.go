// Package history is what a trial of locks leaves behind: who asked for what and when, what
// was answered, when a lease was certainly valid, which faults came. Package check judges it
// without a server.
//
// One process, the witness, writes the history. Every time in it is of the witness's clock:
// the clients may run on other machines, with clocks that lie. So a history says:
//
//   - Call is stamped before the client begins the call, Answer after the call returned. The
//     call was under way between the two at most.
//   - Mark is a moment at which a lease was certainly valid: the client announced it, the
//     witness stamped it and answered, and the client saw Lease.Valid once more. A lease that
//     is lost stays lost, so it was valid at the stamp, and between two of its marks.
//   - Read and Write are the moments at which the witness, who keeps the resources, served them.
//
// A client that is killed or stopped says nothing more: what it had announced and not seen
// valid afterwards is no mark.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Kind is the kind of an Event.
type Kind string

// The kinds of event, with the fields that each sets besides At.
const (
	Begin  Kind = "begin"  // first of all: Run
	End    Kind = "end"    // last of all: the trial was not cut short
	Start  Kind = "start"  // a client runs: Client
	Exit   Kind = "exit"   // it ended, by itself or killed: Client, Error if it says why
	Call   Kind = "call"   // a client begins a call: Client, Op, What, Name, and what it asks for
	Answer Kind = "answer" // the call returned: Client, Op, Result, Error, Token, Waited
	Queued Kind = "queued" // the claim of a Lock that waits has its place in the queue: Client, Op, Token (its ticket, without handoffs)
	Mark   Kind = "mark"   // the lease of this acquisition was valid: Client, Op, Token
	Lost   Kind = "lost"   // the client learned that the lease is lost: Client, Op, Error (the reason)
	Read   Kind = "read"   // under the lease: Client, Op, Name, Resource, Token, Value, Stale
	Write  Kind = "write"  // the same; Value is what it is set to
	Strike Kind = "strike" // a fault begins: Fault, Client or Target
	Heal   Kind = "heal"   // it is over: Fault
	Bit    Kind = "bit"    // the fault was seen to have had an effect: Fault, Error says which
	Left   Kind = "left"   // after all clients ended, somebody looked for what is left behind: What, Value (how many), Error says which
)

// The calls of a client.
const (
	Lock   = "lock"   // waits, until it is cancelled
	Try    = "try"    // does not wait
	Unlock = "unlock" // Of is the acquisition that it ends
	Adopt  = "adopt"  // takes over the detached lease of Of, which another client acquired
	Detach = "detach" // Of
	Revoke = "revoke" // of the holder of the name; Now: at once, which may overlap
	Raw    = "raw"    // a call of the engine itself, in Engine
)

// Results of a call.
const (
	OK      = "ok"      // Lock, Try, Adopt: a lease began, with Token. Unlock: it was valid to its end
	Taken   = "taken"   // Try: somebody holds the name
	Gone    = "gone"    // Unlock, Detach, Adopt: the lease had been lost before
	Gave    = "gave up" // Lock: the client cancelled it, or its context ended
	Victim  = "victim"  // Lock: a cycle was found, and this call gives up
	Failed  = "failed"  // nothing is known of it: it may have taken effect, now or later
	Refused = "refused" // the engine does not do that: nothing has happened
)

// The assumptions of engines that a fault may break.
const (
	Failover = "failover" // another server takes over
	Memory   = "memory"   // the store forgets what it has answered
	Clock    = "clock"    // the clock of the store is set
)

// Resources that a holder reads and writes: a counter of each name.
const (
	Fenced   = "fenced"   // refuses a token below the highest that it has seen
	Unfenced = "unfenced" // takes everything: its losses show what fencing is for
)

// Event is one line of a history. Fields that its kind does not set are zero.
type Event struct {
	At     time.Duration `json:"at"` // since the beginning, by the witness's clock
	Kind   Kind          `json:"kind"`
	Client string        `json:"client,omitempty"` // the process: "c1"; one that replaces it has another name
	Op     int64         `json:"op,omitempty"`     // the call's number; it is of one call in the whole history
	Of     int64         `json:"of,omitempty"`     // the acquisition that a call is about

	What    string `json:"what,omitempty"`
	Name    string `json:"name,omitempty"`
	Permits int32  `json:"permits,omitempty"` // of Lock and Try
	Limit   int32  `json:"limit,omitempty"`   // Permits == Limit: exclusive. Of the Answer Refused to a Raw: that of the queue, if it is the reason
	Under   int64  `json:"under,omitempty"`   // of Lock and Try: the acquisition that it is re-entrant in (the same claim, the same token)
	Now     bool   `json:"now,omitempty"`     // of Revoke

	Result string        `json:"result,omitempty"`
	Error  string        `json:"error,omitempty"`
	Token  uint64        `json:"token,omitempty"`
	Waited time.Duration `json:"waited,omitempty"`

	Resource string `json:"resource,omitempty"`
	Value    int64  `json:"value,omitempty"`
	Stale    bool   `json:"stale,omitempty"` // the fenced resource refused the token

	Fault  int    `json:"fault,omitempty"`  // the number of a strike, which its Heal and Bit name too
	Named  string `json:"named,omitempty"`  // of Strike: the nemesis
	Target string `json:"target,omitempty"` // of Strike: what is hit besides a client

	Breaks []string `json:"breaks,omitempty"` // of Strike: Failover, Memory, Clock

	Engine *EngineCall `json:"engine,omitempty"` // of Raw: what is asked, and in the Answer what it said
	Run    *Run        `json:"run,omitempty"`    // of Begin
}

// EngineCall is one item of a call to an engine itself, without the client library between.
type EngineCall struct {
	Method   string        `json:"method"` // join, renew, leave, revoke
	Claim    string        `json:"claim"`  // a name for the claim's ID, which stays secret
	WaitTTL  time.Duration `json:"wait_ttl,omitempty"`
	TTL      time.Duration `json:"ttl,omitempty"` // of join: what is asked for; of renew: what is wanted
	NoWait   bool          `json:"no_wait,omitempty"`
	Replaces string        `json:"replaces,omitempty"`

	// The answer.
	State   string        `json:"state,omitempty"`   // waiting, held, gone
	Ticket  uint64        `json:"ticket,omitempty"`  // of revoke: asked for
	Granted time.Duration `json:"granted,omitempty"` // the TTL of the answer
	Revoked bool          `json:"revoked,omitempty"`
}

// Run is what a trial was made with: enough to make it again, and to judge it.
type Run struct {
	Version  string        `json:"version"`
	Engine   string        `json:"engine"` // the URL without its secrets
	Seed     uint64        `json:"seed"`
	TTL      time.Duration `json:"ttl"`
	For      time.Duration `json:"for"`
	Clients  int           `json:"clients"`
	Names    []string      `json:"names"`
	Nemeses  []string      `json:"nemeses"`
	Settings []string      `json:"settings,omitempty"` // of the server, as far as it tells
	Declares Declares      `json:"declares"`
}

// Declares is engine.Guarantees in words that a file can keep.
type Declares struct {
	Order        string        `json:"order"`         // none, fifo
	Modes        []string      `json:"modes"`         // exclusive, shared, permits
	Fencing      string        `json:"fencing"`       // none, memory, always
	MayDouble    bool          `json:"may_double"`    // a failover may grant what is still held
	Assumes      []string      `json:"assumes"`       // Memory, Clock: a fault that breaks one may also grant what is still held
	CrashRelease string        `json:"crash_release"` // ttl, session, at once
	Detach       bool          `json:"detach"`
	Bound        time.Duration `json:"bound"` // within which a name is granted after everything is healed

	// Longest is the longest TTL, if the engine has one of its own. An engine that forgot who
	// holds may have everybody wait for so long.
	Longest time.Duration `json:"longest,omitempty"`
}

// Excludes is whether the engine promises exclusion under a fault that breaks that.
func (d Declares) Excludes(breaks ...string) bool {
	return !slices.ContainsFunc(breaks, func(b string) bool {
		return b == Failover && d.MayDouble || slices.Contains(d.Assumes, b)
	})
}

// Writer writes a history. Its methods may be called by several goroutines at once if the
// caller orders them: events are written in the order of the calls, and At must not fall.
type Writer struct {
	out  *json.Encoder
	last time.Duration
}

// NewWriter writes to w, a line per event.
func NewWriter(w io.Writer) *Writer { return &Writer{out: json.NewEncoder(w)} }

// Write appends one event.
func (w *Writer) Write(e Event) error {
	if e.At < w.last {
		return fmt.Errorf("history: an event of %v follows one of %v", e.At, w.last)
	}
	w.last = e.At
	return w.out.Encode(e)
}

// maxLine is more than an event takes.
const maxLine = 1 << 20

// Parse reads a history. A last line that is cut off is left out: the witness was killed.
func Parse(r io.Reader) ([]Event, error) {
	var all []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			var cut *json.SyntaxError
			if errors.As(err, &cut) && !lines.Scan() {
				break
			}
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
		if len(all) > 0 && e.At < all[len(all)-1].At {
			return nil, fmt.Errorf("history: line %d is earlier than the one before it", n)
		}
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if len(all) == 0 || all[0].Kind != Begin || all[0].Run == nil {
		return nil, errors.New("history: it does not begin with the settings of its trial: give the file that torture wrote")
	}
	return all, nil
}

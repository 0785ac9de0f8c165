package claims

import (
	"cmp"
	"time"

	"leasehold/engine"
)

const (
	// FirstTTL is what a claim is born with (rule 3 of package engine): what a
	// cancelled or crashed caller can leave behind.
	FirstTTL = 3 * time.Second

	// RaiseAfter bounds when a held claim is raised to its full TTL: a section
	// shorter than that costs Join and Leave and nothing in between.
	RaiseAfter = 200 * time.Millisecond

	// HandoffBudget and HandoffTime bound how many leases a claim is handed off for while
	// another process waits, whichever ends first.
	HandoffBudget = 32
	HandoffTime   = 10 * time.Millisecond

	// Believe is how long "nobody waits behind you" is believed without being
	// said again, and Listen how often it is asked while that matters.
	Believe = time.Second
	Listen  = 500 * time.Millisecond

	// ReleaseBound is the longest that an Unlock waits for an engine.
	ReleaseBound = 5 * time.Second

	// MaxBatch is the most claims that one call of LockAll makes and of Leave gives up.
	MaxBatch = 1000

	// MaxTick is the most calls that one Tick asks for: the renewals of one Tick are
	// one call to the engine, which splits it as its servers like it. ZooKeeper and
	// etcd prove thousands of claims as cheaply as one.
	MaxTick = 2000

	// attempts is how many Renews of one claim may be under way at once. A
	// reply may take as long as what was asked for; waiting for it would leave
	// no second chance, so the next attempt does not.
	attempts = 3
)

// Config is what a Machine needs to know of its client. It is constant.
type Config struct {
	IdleTimeout    time.Duration // how long a claim nobody uses is kept; 0: not
	NoLocalHandoff bool          // every lease is a claim of its own
	FailFast       bool          // an engine that does not answer fails its callers at once
	Detached       bool          // the engine has detached claims
	Unordered      bool          // the engine has no order: who waits asks anew instead of being renewed
	Observed       bool          // Extend is wanted
	Longest        time.Duration // the longest TTL that the engine grants; 0: engine.MaxTTL

	// NewID draws the ID of a claim, and Jitter a part of d by chance, from 0
	// to d. They are the only things that are not the same in two machines
	// with the same inputs.
	NewID  func() engine.ID
	Jitter func(d time.Duration) time.Duration

	// Trace, unless nil, is told every step: each input, each change of a
	// claim's phase and each output.
	Trace func(Step)
}

// Machine is the client's half: see the package documentation. Its methods are
// the inputs; none may be called while another runs.
type Machine struct {
	cfg Config

	closed    bool
	callersOf map[string]*callers // by name, the first of those that callers share
	claims    map[engine.ID]*Claim
	timers    timers

	tries    []*Claim // that are to be tried for: see try.go
	trying   int      // tries under way
	maxTries int

	firstTTL time.Duration // what the next claim is born with
	down     bool          // the engine did not answer last
	downAt   time.Duration
	downErr  error  // the first of the calls that were not answered since
	failed   uint64 // calls that were not answered, ever

	serial  uint64 // of the last claim
	outputs []Output
	at      time.Duration // of the input under way, for Trace
}

// New is a machine without claims.
func New(cfg Config) *Machine {
	cfg.Longest = cmp.Or(cfg.Longest, engine.MaxTTL)
	return &Machine{
		cfg:       cfg,
		callersOf: map[string]*callers{},
		claims:    map[engine.ID]*Claim{},
		maxTries:  MaxTries,
		firstTTL:  FirstTTL,
	}
}

// Act says what an Output asks for.
type Act uint8

const (
	Join    Act = iota + 1 // call Join for Claim and report it to Joined; Caller is who it was made for, nil in a repetition
	Renew                  // call Renew for Claim, for Want; the call may take Bound; report it to Renewed
	Leave                  // call Leave for Claim and report it to Left; Lease is whose Unlock waits for it, Caller whose Enter does, or nil
	Deliver                // Caller holds Lease; Lent: by a claim that was used before
	Fail                   // Caller gets nothing: Reason, Err
	Lose                   // Lease is lost: Reason
	Contend                // somebody waits behind Lease
	End                    // the Unlock of Lease is over: Reason, Err
	Extend                 // the claim of Lease was renewed
	Down                   // the engine did not answer: Err
	Up                     // it answers again, after Want
)

var actNames = [...]string{"?", "join", "renew", "leave", "deliver", "fail", "lose", "contend", "end", "extend", "down", "up"}

func (a Act) String() string { return actNames[a] }

// Output is one thing to be done. The order of outputs means something only
// for one caller or lease.
type Output struct {
	Act         Act
	Reason      Reason
	HandedOff   bool
	Claim       *Claim
	Caller      *Caller
	Lease       *Lease
	Want, Bound time.Duration
	Err         error
}

// Reason says why a caller failed, a lease was lost, or how an Unlock ended.
type Reason uint8

const (
	OK          Reason = iota
	Held               // somebody else holds the name, and the caller does not wait
	Own                // the caller's own context holds the name
	Upgrade            // the caller's own context holds too much of the name for that
	Revoked            // somebody ended the claim
	Refused            // by the engine, for good: Err
	Unavailable        // the engine did not answer: Err
	Closed             // the machine is closed
	Expired            // no call proved it in time: Err, of the first that was not answered
	NotRenewed         // its time has passed, and Want.NoRenew
	Stopped            // its time has passed, and nobody told the machine that it was due
	Deleted            // the engine had it no more although its time had not passed
	MaxHold            // Want.MaxHold has passed
	Unknown            // the engine did not confirm the release: Err
)

var reasonNames = [...]string{"ok", "held", "own", "upgrade", "revoked", "refused", "unavailable", "closed", "expired", "not renewed", "stopped", "deleted", "max hold", "unknown"}

func (r Reason) String() string { return reasonNames[r] }

// Outputs is what the inputs since the last call ask for. It is valid until the
// next input.
func (m *Machine) Outputs() []Output {
	out := m.outputs
	m.outputs = m.outputs[:0]
	if cap(out) > MaxTick {
		m.outputs = nil // one large batch must not be kept for ever
	}
	return out
}

// Due is when Tick wants to be called next; false: not before another input.
func (m *Machine) Due() (time.Duration, bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return m.timers[0].due, true
}

// Len is how many claims there are, those being given up included, and of how many names
// callers share claims.
func (m *Machine) Len() (claims, names int) { return len(m.claims), len(m.callersOf) }

// Down returns the first error since the engine answered last, or nil if it answers.
func (m *Machine) Down() error {
	if m.down {
		return m.downErr
	}
	return nil
}

// Has reports whether there is a claim of that ID, those being given up included.
func (m *Machine) Has(id engine.ID) bool { return m.claims[id] != nil }

func (m *Machine) emit(o Output) {
	m.outputs = append(m.outputs, o)
	if m.cfg.Trace != nil {
		m.traceOutput(&m.outputs[len(m.outputs)-1])
	}
}

// answered takes in whether the engine answered a call. A refusal is an answer.
func (m *Machine) answered(now time.Duration, err error) {
	m.reached(now, err == nil || refused(err), err)
}

func (m *Machine) reached(now time.Duration, ok bool, err error) {
	if !ok {
		m.failed++
	}
	switch {
	case ok:
		if m.down {
			m.down = false
			m.emit(Output{Act: Up, Want: now - m.downAt})
		}
	case !m.down && !m.closed:
		m.down, m.downAt, m.downErr = true, now, err
		m.emit(Output{Act: Down, Err: err})
	}
}

// backoff is the pause before asking an engine again that did not answer: 50 ms
// doubled up to 1 s, half of it by chance, so that many clients do not come back
// at the same moment.
func (m *Machine) backoff(retries uint16) time.Duration {
	d := min(50*time.Millisecond<<min(retries, 5), time.Second)
	return d/2 + m.cfg.Jitter(d/2)
}

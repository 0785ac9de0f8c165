package elect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"leasehold"
	"leasehold/engine"
)

// shortest is the least pause between two reads of the queue.
const shortest = 100 * time.Millisecond

// MaxValue is the length of the longest value that a leader can publish, in bytes.
const MaxValue = 128

var (
	// ErrNotLeader is returned by IsLeader and Resign of a candidate that does not lead.
	ErrNotLeader = errors.New("not the leader")

	// ErrNoLeader is returned by Leader if nobody leads.
	ErrNoLeader = errors.New("nobody leads")

	// ErrResigned is the cause of the context of a function whose leader has resigned.
	ErrResigned = errors.New("the leader has resigned")

	// ErrRunning is returned by Run while another Run of the same Election goes on: two
	// candidates need two of them.
	ErrRunning = errors.New("the candidate stands already: make another Election for another candidate")
)

// Options are the choices of a candidate. The zero value is ready to use.
type Options struct {
	// Value is what this candidate publishes while it leads, such as an address: MaxValue
	// bytes of printable UTF-8 at most. It is the label of its claim, and everybody sees it
	// who may read the queue.
	Value string

	// TTL is how long the lead outlives a leader that gives no sign of life. Default: that of
	// the Client.
	TTL time.Duration

	// Standby is how many candidates wait in the queue behind the leader. Default 2.
	Standby int

	// Look is how often a candidate outside of the queue reads it: once in 0.75 to 1.25 Look.
	// At least 100 ms; default 75 s.
	Look time.Duration

	// Every is how often Observe reads the queue. At least 100 ms; default 5 s.
	Every time.Duration

	// Log receives a line when this candidate begins to lead, and one at the end. By default
	// events are dropped.
	Log *slog.Logger
}

// Election is one candidate for a name, or somebody who only asks who leads. It is safe for
// concurrent use.
type Election struct {
	locks *leasehold.Client
	name  string
	o     Options
	host  string

	mu      sync.Mutex
	running bool
	now     *term // nil while this candidate does not lead
}

// term is the time for which a candidate leads.
type term struct {
	lease *leasehold.Lease
	ctx   context.Context // of the function
	end   context.CancelCauseFunc
}

// New returns a candidate for the name, which does not stand before Run. Two candidates of one
// process are two Elections. It returns engine.ErrName for a name that cannot be locked, and
// an error for no client and for options out of their bounds. It returns errors.ErrUnsupported
// for a Value on an engine that does not show it (Guarantees.SeesWaiters).
func New(locks *leasehold.Client, name string, o Options) (*Election, error) {
	fail := func(format string, args ...any) (*Election, error) {
		return nil, fmt.Errorf("elect: %q: %w", name, fmt.Errorf(format, args...))
	}
	if locks == nil {
		return fail("there is no client: make one with leasehold.New")
	}
	if err := engine.CheckName(name); err != nil {
		return fail("%w", err)
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case len(o.Value) > MaxValue:
		return fail("the value has %d bytes: give %d at most", len(o.Value), MaxValue)
	case !utf8.ValidString(o.Value) || strings.ContainsFunc(o.Value, unprintable):
		return fail("the value %q is not printable: give text", o.Value)
	case o.Value != "" && !locks.Guarantees().SeesWaiters:
		return fail("the value %q: this engine does not show it: choose an engine that shows who waits: %w", o.Value, errors.ErrUnsupported)
	case o.Standby < 0:
		return fail("Standby %d is negative: leave it out for 2", o.Standby)
	case o.Look != 0 && o.Look < shortest || o.Every != 0 && o.Every < shortest:
		return fail("Look %v or Every %v is shorter than %v: the engine would be read without a pause", o.Look, o.Every, shortest)
	}
	if o.TTL != 0 {
		if err := locks.Guarantees().CheckTTL(o.TTL); err != nil {
			return fail("%w", err)
		}
	}
	if o.Standby == 0 {
		o.Standby = 2
	}
	if o.Look == 0 {
		o.Look = 75 * time.Second
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Election{name: name, o: o}
	e.host, _ = os.Hostname() // as the Client shows it
	e.locks = locks.With(leasehold.LockOptions{TTL: cmp.Or(o.TTL, locks.LockOptions().TTL), Label: o.Value, NoLocalHandoff: true})
	return e, nil
}

// Run stands for election, calls lead when this candidate leads, and stands again after a loss
// or Resign. The context of lead ends with ctx, with the lease (the cause is
// leasehold.ErrLost), or at Resign (ErrResigned). lead must return then, and Run waits for it.
// Run only logs the error of lead after a loss or Resign. If lead returns of its own accord,
// Run ends too.
//
// Errors:
//
//   - what lead returned of its own accord, joined with that of Unlock: nil means that it
//     returned nil and led to its end;
//   - the cause of ctx when ctx has ended, joined with what lead returned;
//   - ErrRunning while another Run of this Election goes on;
//   - those of leasehold.Client.Lock that waiting does not mend, such as ErrClosed.
//
// While the engine cannot be reached Run goes on trying.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, token leasehold.Token) error) error {
	e.mu.Lock()
	if e.running {
		e.mu.Unlock()
		return e.wrap(ErrRunning)
	}
	e.running = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.running = false
		e.mu.Unlock()
	}()
	for {
		lease, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		if again, err := e.serve(ctx, lease, lead); !again {
			return e.wrap(err)
		}
	}
}

// serve has lead run under the lease, and reports whether to stand again.
func (e *Election) serve(ctx context.Context, lease *leasehold.Lease, lead func(context.Context, leasehold.Token) error) (again bool, err error) {
	bound, cancel := lease.Bind(ctx)
	defer cancel()
	leading, end := context.WithCancelCause(bound)
	defer end(nil)
	e.set(&term{lease: lease, ctx: leading, end: end})
	over := sync.OnceValue(func() error {
		e.set(nil)
		return lease.Unlock()
	})
	// Also if lead panics: the next leader must not wait for the TTL.
	defer over()

	e.o.Log.Info("elect: leads", "name", e.name, "token", lease.Token().String())
	err = lead(leading, lease.Token())
	cause := context.Cause(leading)
	unlocked := over()
	e.o.Log.Info("elect: leads no more", "name", e.name, "token", lease.Token().String(), "cause", cause, "error", err)
	switch {
	case ctx.Err() != nil:
		if cause = context.Cause(ctx); errors.Is(err, cause) {
			return false, err
		}
		return false, errors.Join(cause, err)
	case cause != nil: // lost, or resigned
		return true, nil
	}
	return false, errors.Join(err, unlocked)
}

func (e *Election) set(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = t
}

// IsLeader returns nil if this candidate leads: its function runs, has not been asked to
// return, and its lease is proven (leasehold.Lease.Valid). Otherwise it returns ErrNotLeader.
func (e *Election) IsLeader() error {
	t := e.proven()
	if t == nil || t.ctx.Err() != nil {
		return e.wrap(ErrNotLeader)
	}
	return nil
}

// proven returns the present term, or nil if there is none or its lease is not proven. It does
// not hold mu over Valid, which may call the Observer of the Client: that may ask this Election.
func (e *Election) proven() *term {
	e.mu.Lock()
	t := e.now
	e.mu.Unlock()
	if t == nil || !t.lease.Valid() {
		return nil
	}
	return t
}

// Resign ends the context of the function that leads, with the cause ErrResigned. When the
// function has returned, the next candidate leads, and this one stands again, behind all
// that wait: if nobody does, it leads again. Resign does not wait for that, and the function
// itself may call it. It returns ErrNotLeader if this candidate does not lead.
func (e *Election) Resign() error {
	t := e.proven()
	if t == nil {
		return e.wrap(ErrNotLeader)
	}
	t.end(ErrResigned)
	return nil
}

// retryAfter is how long a candidate waits after an answer that it did not expect.
const retryAfter = time.Second

// Campaign stands for election until this candidate leads, and returns its lease. It is for
// programs that cannot give Run a function: they end their work when the context of the lease
// ends, and call Unlock after that. IsLeader and Resign know of Run alone.
//
// The errors are those of Run, except for what a function returns and ErrRunning.
func (e *Election) Campaign(ctx context.Context) (*leasehold.Lease, error) {
	lease, err := e.campaign(ctx)
	return lease, e.wrap(err)
}

func (e *Election) campaign(ctx context.Context) (*leasehold.Lease, error) {
	for {
		pause := e.o.Look*3/4 + rand.N(e.o.Look/2+1)
		if !e.crowded(ctx, time.Time{}) {
			lease, err := e.stand(ctx)
			switch {
			case err == nil:
				return lease, nil
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case errors.Is(err, errCrowded):
			case errors.Is(err, leasehold.ErrRevoked), errors.Is(err, leasehold.ErrUnavailable):
				e.o.Log.Warn("elect: stands again", "name", e.name, "error", err)
				pause = min(pause, retryAfter)
			default:
				return nil, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errCrowded = errors.New("enough candidates wait")

// stand waits in the queue, unless too many turn out to wait before this candidate: all may
// have come at once, and have seen nobody.
func (e *Election) stand(ctx context.Context) (*leasehold.Lease, error) {
	began := time.Now()
	waiting, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var looking sync.WaitGroup
	looking.Go(func() {
		// Not all at once.
		select {
		case <-time.After(e.o.Look/60 + rand.N(e.o.Look/12+1)):
			if e.crowded(waiting, began) {
				leave(errCrowded)
			}
		case <-waiting.Done():
		}
	})
	lease, err := e.locks.Lock(waiting, e.name)
	leave(nil)
	looking.Wait()
	return lease, err
}

// crowded reports whether Standby candidates wait already: all that wait, or before the one
// who began to stand at that time. If the queue cannot be read it is not: Lock says why.
//
// A candidate finds itself in the queue by its process, value and time: without a value by the
// other two, since it has the label of its Client. Another one of the same process, with the
// same value or beside one without, may have come at the same moment. Then the later of the two
// counts, and one may leave too many. It looks again.
func (e *Election) crowded(ctx context.Context, began time.Time) bool {
	if !e.locks.Guarantees().SeesWaiters {
		return false
	}
	queue, err := e.locks.Queue(ctx, e.name)
	if err != nil {
		return false
	}
	before, waiting := 0, 0
	for _, c := range queue.Claims {
		if c.State != engine.Waiting {
			continue
		}
		if o := c.Owner; o.PID == os.Getpid() && o.Host == e.host && (e.o.Value == "" || o.Label == e.o.Value) && !o.Since.Before(began) {
			before = waiting
		}
		waiting++
	}
	if began.IsZero() {
		before = waiting
	}
	return before >= e.o.Standby
}

func (e *Election) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("elect: %q: %w", e.name, err)
}

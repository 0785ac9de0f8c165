package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engine"
)

// order is what "run" was asked to do, checked. It crosses from the process
// that a person started to the one that keeps the lease (over a socket: the URL
// may hold a password).
type order struct {
	Name    string
	Command []string // crosses in the arguments, where everybody expects it
	Path    string   // of the program

	Engine    string
	Require   engine.Guarantees
	Label     string
	Log       string        // see logAs
	TTL       time.Duration // 0: the default, see lifetime
	Wait      time.Duration // as in leasehold.LockOptions
	Once      bool          // ask once: Wait does not matter
	MinHold   time.Duration
	MaxHold   time.Duration
	All       bool // held until everything the command started has ended
	Reentrant bool // run under the hold of the run above, if that has the name
	Shared    bool
	Permits   int32 // 0: not a semaphore
	Of        int32
	Term      int // of a candidate, counted from 1; 0: no election
	Conflict  int // exit code if not obtained
	Lost      int // exit code if lost
}

// killedHelp is what the help of run and elect says of leasehold's own end. It names every system:
// a release has one manual for all, made on one of them.
const killedHelp = `
On Linux the same happens if leasehold itself is killed or stopped, as long as
one of its three processes is left (the third is called lease-reaper). If all
three are killed at once, COMMAND itself is killed, but the processes that it
started go on, beside the next holder once the TTL has passed. leasehold may not
kill processes of another user (sudo): it waits for them. On other systems, if
leasehold itself is killed, COMMAND goes on beside the next holder: no process
is left to end it.

On other systems leasehold also ends less after a loss: COMMAND and its process
group, but not what has left the group. On Windows, and in a session with a
terminal on macOS and BSD, it ends COMMAND alone. On Windows COMMAND gets no
TERM before it is killed.
`

func (a *app) runCommand() *cobra.Command {
	o := &order{}
	var nonblock bool
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a name",
		Long: `Obtain NAME, run COMMAND, and give NAME back when COMMAND itself has ended.
Processes that COMMAND left in the background go on without the lock, unless
--hold-descendants is given. COMMAND finds LEASEHOLD_NAME and LEASEHOLD_TOKEN in
its environment. The token is what a resource takes: it ends in ";shared" with
--shared. It is empty with --permits that are not all of --of, and on an engine
without fencing.

COMMAND never runs on a lost lock. While leasehold cannot renew the lock, it
sends TERM to COMMAND and its process group, in the last third of the time that
is left. At the end of that time it kills them and everything they started.
` + killedHelp + `
A leasehold that COMMAND runs learns from LEASEHOLD_HELD which names the runs
above it hold. A run of the same NAME would wait for itself: it fails at once,
or runs under that hold with --reentrant. If runs wait for each other's names in
a cycle, the youngest fails as if it had not obtained its name. A job that is
stopped while it waits (Ctrl-Z) gives its turn to the next waiter. It waits
anew when it is continued.

leasehold exits with the code of COMMAND, or with one of these:

` + codesHelp,
		Example: `  leasehold run backup -- ./backup.sh
  leasehold run deploy --nonblock -- make deploy || echo "not now: $?"
  leasehold run mail --permits 1 --of 4 --wait 10s -- ./send.sh`,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.fillRun(cmd, o, args, nonblock); err != nil {
				return err
			}
			env, err := a.nested(cmd.Context(), o)
			switch {
			case err != nil:
			case env != nil:
				a.code, err = o.runUnder(env)
			default:
				a.code, err = a.runOrder(cmd.Context(), o)
			}
			return err
		},
	}
	claimFlags(cmd, o, &nonblock)
	f := cmd.Flags()
	f.StringVar(&o.Log, "log", "", logHelp)
	f.DurationVar(&o.MinHold, "min-hold", 0, "keep NAME at least this long (or the TTL, if longer), even if COMMAND ends sooner")
	f.DurationVar(&o.MaxHold, "max-hold", 0, "kill COMMAND when it has held NAME this long; it gets TERM 5s earlier, or after two thirds of a time shorter than 15s")
	f.BoolVar(&o.Reentrant, "reentrant", false, "if a run above this one holds NAME, run COMMAND under that hold and its bounds")
	f.BoolVar(&o.All, "hold-descendants", false, "hold NAME, and wait, until all processes that COMMAND started have ended (as flock does); only on Linux")
	f.IntVar(&o.Lost, "lost-exit-code", codeLost, "exit code if NAME was lost, 1 to 255 (not 0: COMMAND was ended, which is no success)")
	return cmd
}

// claimFlags are the flags of every command that obtains a name.
func claimFlags(cmd *cobra.Command, o *order, nonblock *bool) {
	f := cmd.Flags()
	f.BoolVar(&o.Shared, "shared", false, "hold NAME together with other shared holders")
	f.Int32Var(&o.Permits, "permits", 0, "hold this many permits of a semaphore (with --of)")
	f.Int32Var(&o.Of, "of", 0, "how many permits NAME has; every user of NAME must give the same number")
	f.DurationVar(&o.Wait, "wait", 0, "wait at most this long; opening the engine counts, and has 2s at least (default: wait without limit)")
	f.BoolVar(nonblock, "nonblock", false, "do not wait for NAME; the engine has 2s to answer")
	f.DurationVar(&o.TTL, "ttl", 0, fmt.Sprintf("how long the lock outlives the last sign of life of this process (default %v, or the engine's longest)", leasehold.DefaultTTL))
	f.StringVar(&o.Label, "label", "", "text that others see in the queue of NAME")
	f.IntVar(&o.Conflict, "conflict-exit-code", codeConflict, "exit code if NAME was not obtained")
}

// lifetime is the TTL of an order on an engine. Where none was given, it is no more
// than the engine grants.
func (o *order) lifetime(g engine.Guarantees) time.Duration {
	ttl := cmp.Or(o.TTL, leasehold.DefaultTTL)
	if o.TTL == 0 && g.MaxTTL > 0 {
		ttl = min(ttl, g.MaxTTL)
	}
	return ttl
}

// fillRun checks everything that can be checked before waiting: an hour in
// line that ends in "no such command" would be an hour lost.
func (a *app) fillRun(cmd *cobra.Command, o *order, args []string, nonblock bool) (err error) {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0 && len(args) < 2:
		return usageError("name or command missing: %s", cmd.UseLine())
	case dash != 1:
		return usageError("give one name, then --, then the command: %s", cmd.UseLine())
	case len(args) < 2:
		return usageError("no command after --: %s", cmd.UseLine())
	}
	if err := a.logAs(o.Log); err != nil {
		return err
	}
	o.Name, o.Command = args[0], args[1:]
	if err := a.fillClaim(cmd, o, nonblock); err != nil {
		return err
	}
	switch {
	case o.MinHold < 0 || o.MaxHold < 0:
		return usageError("--min-hold %v or --max-hold %v is negative: leave out the one that you do not need", o.MinHold, o.MaxHold)
	case cmd.Flags().Changed("max-hold") && o.MaxHold < engine.MinTTL:
		return usageError("--max-hold %v is less than %v: give a longer time", o.MaxHold, engine.MinTTL)
	case o.MinHold > engine.MaxTTL:
		return usageError("--min-hold %v is more than %v: give a shorter time", o.MinHold, engine.MaxTTL)
	case o.MaxHold > 0 && o.MinHold > o.MaxHold:
		return usageError("--min-hold %v is more than the %v of --max-hold", o.MinHold, o.MaxHold)
	case badCode(o.Lost) || o.Lost == 0:
		return usageError("--lost-exit-code %d is outside 1 to 255", o.Lost)
	}
	if err := enoughFiles(); err != nil {
		return err
	}
	if o.Path, err = exec.LookPath(o.Command[0]); err != nil {
		return notRunnable(o.Command[0], err)
	}
	return nil
}

// fillClaim checks what claimFlags defined.
func (a *app) fillClaim(cmd *cobra.Command, o *order, nonblock bool) (err error) {
	if err := engine.CheckName(o.Name); err != nil {
		return err
	}
	if o.Engine, err = a.engineURL(); err != nil {
		return err
	}
	if o.Require, err = parseRequire(a.require); err != nil {
		return usageError("--require: %w", err)
	}
	flags := cmd.Flags()
	if flags.Changed("ttl") {
		if err := engine.CheckTTL(o.TTL); err != nil {
			return usageError("--ttl: %w", err)
		}
	}
	switch {
	case flags.Changed("permits") != flags.Changed("of"):
		return usageError("--permits and --of go together: how many permits, of how many")
	case o.Shared && flags.Changed("permits"):
		return usageError("--shared and --permits exclude each other: --shared is any number of holders")
	case nonblock && flags.Changed("wait"):
		return usageError("--wait and --nonblock exclude each other")
	case flags.Changed("permits") && o.Of < 1:
		return usageError("--of %d: a name has at least 1 permit", o.Of)
	case flags.Changed("permits") && (o.Permits < 1 || o.Permits > o.Of):
		return usageError("--permits %d is outside 1 to the %d of --of", o.Permits, o.Of)
	case o.Wait < 0:
		return usageError("--wait %v is negative: give --nonblock to ask once", o.Wait)
	case len(o.Label) > maxLabel && flags.Lookup("value") != nil:
		return usageError("--value has %d bytes, more than %d: give a shorter one", len(o.Label), maxLabel)
	case len(o.Label) > maxLabel:
		return usageError("--label has %d bytes, more than %d: give a shorter one", len(o.Label), maxLabel)
	case badCode(o.Conflict):
		return usageError("--conflict-exit-code %d is outside 0 to 255", o.Conflict)
	}
	if nonblock || flags.Changed("wait") && o.Wait == 0 {
		o.Once = true
	}
	return nil
}

// obtain obtains the name, in the mode that was ordered.
func (o *order) obtain(ctx context.Context, locks *leasehold.Client) (lease *leasehold.Lease, err error) {
	switch {
	case o.Term > 0:
		lease, err = o.campaign(ctx, locks)
	case o.Shared && o.Once:
		lease, err = locks.TryRLock(ctx, o.Name)
	case o.Shared:
		lease, err = locks.RLock(ctx, o.Name)
	case o.Permits > 0 && o.Once:
		lease, err = locks.TryAcquire(ctx, o.Name, o.Permits, o.Of)
	case o.Permits > 0:
		lease, err = locks.Acquire(ctx, o.Name, o.Permits, o.Of)
	case o.Once:
		lease, err = locks.TryLock(ctx, o.Name)
	default:
		lease, err = locks.Lock(ctx, o.Name)
	}
	var held *leasehold.HeldError
	if errors.As(err, &held) {
		err = held // who holds it is the whole story
	}
	var cycle *leasehold.DeadlockError
	if errors.As(err, &cycle) {
		err = cycle
	}
	if errors.Is(err, leasehold.ErrDeadlock) || errors.Is(err, leasehold.ErrHeld) || errors.Is(err, leasehold.ErrRevoked) {
		err = &exitError{o.Conflict, err}
	}
	return lease, err
}

// maxLabel leaves room for the rest of an owner within engine.MaxOwner, even
// if every byte of the label is written as an escape of six.
const maxLabel = 100

func badCode(code int) bool { return code < 0 || code > 255 }

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/internal/boottime"
	"leasehold/internal/door"
)

// keeper obtains the lease, runs the command under it, and ends the command
// when the lease ends. On Linux it is a process of its own.
type keeper struct {
	*app
	order    *order
	launcher launcher
	run      runner
	life     *os.File // see lifeFile; nil: none

	renewed chan struct{} // capacity 1: look at the lease
	asked   bool          // a signal asked the command to end
}

// launcher is the process that a person or a script started, as the keeper sees
// it.
type launcher interface {
	// signals are those that are meant for the command.
	signals() <-chan syscall.Signal
	// gone is closed when it has died.
	gone() <-chan struct{}
	// asleep reports whether somebody has stopped it.
	asleep() bool
	// running is called before the command is started.
	running()
	// keepAlive hands it a file that keeps the claim alive, see lifeFile.
	keepAlive(*os.File)
	// deadline tells it when to end everything if the keeper says no more.
	deadline(time.Duration)
	// over tells it that there is nothing left to end.
	over()
	// stopped tells it that the command was stopped.
	stopped(syscall.Signal)
}

// runner starts the command.
type runner func(o *order, env []string, life *os.File) (command, error)

// command is the command and everything it started.
type command interface {
	exited() <-chan struct{}   // closed when the command itself has ended
	orphaned() <-chan struct{} // closed when nobody will tell that any more
	gone() <-chan struct{}     // closed when all it started has ended too
	status() status            // once it has exited
	stopped() <-chan syscall.Signal
	signal(syscall.Signal) // to the command's group, as a terminal would
	notify()               // asks the group to end: TERM, heard even if it is stopped
	kill()                 // all of it; returns at once, goes on until gone
	letGo()                // what still runs goes on when this process has ended
}

// status is how a command ended.
type status struct {
	Code   int
	Signal syscall.Signal // that ended it, or 0
	Again  bool           // a candidate stands again
}

func (s status) code() int {
	if s.Signal != 0 {
		return codeSignal + int(s.Signal)
	}
	return s.Code
}

var (
	errLauncherGone = errors.New("leasehold was killed")

	// errTooLate: trust had ended when the command was to be started.
	errTooLate = errors.New("its time was over")

	// errOrphaned: the process that watched over the command has ended.
	errOrphaned = errors.New("the process that watched over the command was killed")

	// errNotRenewed is the one reason that comes before the loss.
	errNotRenewed = errors.New("the lock could not be renewed")
)

// grace is how long a command may clean up after TERM when nothing else bounds
// it: when its leasehold was killed.
const grace = time.Second

// keep returns how the command ended, with the exit code in it, or an error.
func (k *keeper) keep(ctx context.Context) (status, error) {
	k.renewed = make(chan struct{}, 1)
	eng, err := k.open(ctx)
	if err != nil {
		return status{}, err
	}
	k.order.TTL = k.order.lifetime(eng.Guarantees())
	notice := &engineNotice{app: k.app, name: k.order.Name}
	defer notice.close()
	locks, err := newClient(eng, leasehold.Options{
		TTL: k.order.TTL, Label: k.order.Label, Require: k.order.Require, NoLocalHandoff: true,
		Observer: func(e leasehold.Event) {
			k.observe(e)
			if k.log != nil {
				k.logEvent(e)
			} else {
				notice.observe(e)
			}
		},
	})
	if err != nil {
		return status{}, err
	}
	defer locks.Close()
	if k.life, err = lifeFile(eng); err != nil {
		return status{}, err
	}
	lease, err := k.obtain(ctx, locks)
	if err != nil {
		return status{}, err
	}
	return k.under(locks, lease)
}

// open opens the engine, unless a signal or the end of the launcher ends that.
func (k *keeper) open(ctx context.Context) (engine.Engine, error) {
	ctx, asked := k.heed(ctx)
	eng, err := k.openEngine(ctx, k.order)
	if why := asked(); why != nil {
		if err == nil {
			eng.Close()
		}
		return nil, why
	}
	return eng, err
}

// heed is ctx until a signal or the end of the launcher ends it. Nobody else may take a
// signal until asked was called. That says whether one came: as long as nothing has
// been started, one that came too late to end anything counts still.
func (k *keeper) heed(ctx context.Context) (_ context.Context, asked func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	enough, listening := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(listening)
		select {
		case sig := <-k.launcher.signals():
			cancel(&signalError{sig})
		case <-k.launcher.gone():
			cancel(errLauncherGone)
		case <-enough:
		}
	}()
	return ctx, func() error {
		close(enough)
		<-listening
		defer cancel(nil)
		return context.Cause(ctx)
	}
}

// observe hears of renewals, which move the end of the lease.
func (k *keeper) observe(e leasehold.Event) {
	if e.Kind != leasehold.EventRenewed {
		return
	}
	select {
	case k.renewed <- struct{}{}:
	default:
	}
}

// obtain waits for the lease, until a signal or the end of the launcher ends
// that.
func (k *keeper) obtain(ctx context.Context, locks *leasehold.Client) (*leasehold.Lease, error) {
	ctx, asked := k.heed(ctx)
	lease, err := k.await(ctx, locks)
	for err == nil && k.launcher.asleep() {
		lease, err = k.pass(ctx, locks, lease)
	}
	if why := asked(); why != nil {
		if err == nil {
			k.unused(locks, lease)
		}
		return nil, why
	}
	return lease, err
}

// unused gives back a lease under which nothing ran, at once: there is nothing from which
// --min-hold would have to keep others. How it went concerns nobody.
func (k *keeper) unused(locks *leasehold.Client, lease *leasehold.Lease) {
	if k.order.MinHold > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = locks.RevokeNow(ctx, k.order.Name, lease.Token().Ticket())
	}
	lease.Unlock()
}

// await waits for the lease.
func (k *keeper) await(ctx context.Context, locks *leasehold.Client) (*leasehold.Lease, error) {
	// MaxHold is this process's to keep: the command gets its TERM before and
	// its KILL at the end, which is no loss of the lease.
	held, err := outerHolds()
	if err != nil {
		return nil, err
	}
	locks = locks.With(leasehold.LockOptions{Wait: k.order.Wait, MinHold: k.order.MinHold})
	began := boottime.Now()
	defer func() { k.order.waited(boottime.Now() - began) }()
	return k.lock(door.WithHolds(ctx, asHolds(held)), k.order, locks)
}

// pass gives the turn of a job that is stopped to the next, and waits anew once it is
// continued. Somebody stopped the launcher while it waited (SIGSTOP: a Ctrl-Z stops this
// process too, and its claim ends by itself): what would start now is what nobody
// looks at, and would stop at the first word it asks the terminal for, with the name.
// A launcher that is stopped when its command runs is another thing: that goes on.
func (k *keeper) pass(ctx context.Context, locks *leasehold.Client, lease *leasehold.Lease) (*leasehold.Lease, error) {
	k.say("%s: its turn came while this job was stopped, and goes to the next waiter; the job waits anew when it is continued", quoteName(k.order.Name))
	k.unused(locks, lease)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for k.launcher.asleep() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return k.await(ctx, locks)
}

// under runs the command under the lease and ends both.
func (k *keeper) under(locks *leasehold.Client, lease *leasehold.Lease) (status, error) {
	obtained := boottime.Now()
	k.launcher.running()
	if k.life != nil {
		k.launcher.keepAlive(k.life)
	}
	held, err := outerHolds()
	if err != nil {
		k.unused(locks, lease)
		return status{}, err
	}
	env := environ(fence.Of(lease), append(held, outerHold{k.order.Name, lease.Token()}))
	g := &guard{}
	if k.order.MaxHold > 0 {
		most := min(k.order.MaxHold, math.MaxInt64/2) // for ever must not overflow into the past
		g.end, g.lead = obtained+most, min(most/3, 5*time.Second)
	}
	// Trust goes out before the command is started: from then on two processes
	// watch its end.
	now, left := boottime.Now(), lease.Remaining()
	if left == 0 {
		why := context.Cause(lease.Context())
		lease.Unlock() // frees the room of a claim that was revoked
		return status{}, k.lostBefore(why)
	}
	g.trust(now, left)
	wake, err := newAlarm() // without it there is no watching, and without watching no command
	if err != nil {
		k.unused(locks, lease)
		return status{}, err
	}
	defer wake.stop()
	k.launcher.deadline(g.lastResort())
	cmd, err := k.run(k.order, env, k.life)
	switch {
	case errors.Is(err, errTooLate):
		lease.Unlock()
		return status{}, k.lostBefore(err)
	case errors.Is(err, errOrphaned):
		lease.Unlock() // and not at once: the command may have begun
		return status{}, fmt.Errorf("%s: %w", quoteName(k.order.Name), err)
	case err != nil:
		k.unused(locks, lease)
		return status{}, notRunnable(k.order.Command[0], err)
	}
	k.line(slog.LevelInfo, "command started", "name", k.order.Name)
	why := k.watch(locks, lease, cmd, g, wake)
	k.launcher.over() // before giving the lock back, which may take a while
	cmd.letGo()
	end := cmd.status()
	k.logEnd(end, boottime.Now()-obtained, why)
	k.linger(lease, k.stays(locks.Guarantees(), obtained), wake)
	keeps := boottime.Now() < obtained+k.order.MinHold
	if err := lease.Unlock(); why == nil && errors.Is(err, leasehold.ErrLost) {
		why = err // between its last renewal and its end
	} else if errors.Is(err, leasehold.ErrUnknown) && keeps {
		k.say("%s: the engine did not confirm the rest of --min-hold: others may obtain the name before its end", quoteName(k.order.Name))
	} else if errors.Is(err, leasehold.ErrUnknown) {
		k.say("%s: the engine did not confirm the release: others may wait up to %v", quoteName(k.order.Name), k.order.TTL)
	}
	if why == nil {
		return end, nil
	}
	return end, &exitError{k.order.Lost, &lostError{k.order.Name, why}}
}

// logEnd writes how the command ended.
func (k *keeper) logEnd(end status, held time.Duration, why error) {
	args := []any{"name", k.order.Name, "held", held}
	if end.Signal != 0 {
		args = append(args, "signal", end.Signal.String())
	} else {
		args = append(args, "exit_code", end.Code)
	}
	level := slog.LevelInfo
	if why != nil {
		level = slog.LevelWarn
		args = append(args, "why", why.Error())
	}
	k.line(level, "command ended", args...)
}

// lostBefore is the error of a lease that ended before the command began.
func (k *keeper) lostBefore(why error) error {
	return &exitError{k.order.Lost, fmt.Errorf("%s was lost before the command was started: %w", quoteName(k.order.Name), why)}
}

// lostError says what became of the command.
type lostError struct {
	name string
	why  error
}

func (e *lostError) Unwrap() error { return e.why }

func (e *lostError) Error() string {
	name := quoteName(e.name)
	switch {
	case errors.Is(e.why, leasehold.ErrMaxHold):
		return name + " was held for --max-hold; the command was ended"
	case errors.Is(e.why, errNotRenewed):
		return name + " could not be renewed in time; the command was ended"
	case errors.Is(e.why, errLauncherGone):
		return name + ": leasehold was killed; the command was ended"
	case errors.Is(e.why, errOrphaned):
		return name + ": " + errOrphaned.Error() + "; the command was ended"
	}
	why := errNotRenewed.Error()
	if lost, ok := errors.AsType[*leasehold.LostError](e.why); ok {
		why = lost.Why()
	}
	return name + " was lost: " + why + "; the command was ended"
}

// watch waits for the command's end and passes signals on to it. It returns
// nil if the command ended by itself, and what it started too if that was
// ordered; otherwise why it had to end, and then
// everything it started has ended too.
func (k *keeper) watch(locks *leasehold.Client, lease *leasehold.Lease, cmd command, g *guard, wake *alarm) (why error) {
	lost, abandoned := lease.Context().Done(), k.launcher.gone()
	exited, orphaned := cmd.exited(), cmd.orphaned()
	var freed chan struct{}
	ending := func(reason error) {
		if why == nil {
			why = reason
		}
	}
	for {
		now := boottime.Now()
		if left := lease.Remaining(); left > 0 && g.trust(now, left) {
			k.launcher.deadline(g.lastResort())
		}
		do, again := g.next(now)
		switch do {
		case notify:
			if g.end != 0 && now >= g.end-g.lead {
				ending(leasehold.ErrMaxHold)
			}
			// Unless a better reason is known. It stays the reason if the lock is renewed after
			// all: nobody can tell whether the command ends because of this TERM.
			ending(errNotRenewed)
			k.line(slog.LevelWarn, "command told to end", "name", k.order.Name, "why", why.Error(), "trusted", lease.Remaining())
			cmd.notify()
		case kill:
			if g.maxHoldPassed(now) { // and this process slept through the TERM
				ending(leasehold.ErrMaxHold)
			}
			ending(context.Cause(lease.Context())) // if that is why, and not news yet
			ending(errNotRenewed)
			// Before the kill, not after: the launcher would act a moment later,
			// and kill this process too, which still has to say why.
			k.launcher.over()
			cmd.kill()
			k.line(slog.LevelWarn, "command killed", "name", k.order.Name, "why", why.Error())
			<-cmd.gone()
			return why
		}
		wake.at(again)
		select {
		case <-cmd.gone():
			select {
			case <-cmd.exited():
			default:
				ending(errOrphaned) // nobody told how it ended
			}
			return why
		case <-exited:
			if why == nil && !k.order.All {
				return nil
			}
			if exited = nil; why == nil {
				break
			}
			// It obeyed; what it leaves behind may not outlive it long.
			g.finish(boottime.Now(), grace)
		case <-k.renewed:
		case <-wake.c():
		case sig := <-cmd.stopped():
			k.launcher.stopped(sig)
		case sig := <-k.launcher.signals():
			k.asked = k.asked || slices.Contains(asking, os.Signal(sig))
			cmd.signal(sig)
		case <-orphaned:
			// The kernel has killed the command, and the rest must follow.
			orphaned = nil
			ending(errOrphaned)
			g.finish(boottime.Now(), 0)
		case <-abandoned:
			abandoned = nil
			ending(errLauncherGone)
			g.finish(boottime.Now(), grace)
		case <-lost:
			lost = nil
			cause := context.Cause(lease.Context())
			ending(cause)
			if !errors.Is(cause, leasehold.ErrRevoked) {
				g.finish(boottime.Now(), 0) // somebody may hold it by now
				break
			}
			// A holder that was revoked politely takes its room until it
			// leaves or its deadline passes, so there is time for TERM. Only
			// the queue can tell it from one that was revoked at once.
			g.finish(boottime.Now(), k.order.TTL)
			freed = make(chan struct{})
			go k.waitForCapacity(locks, lease, freed)
		case <-freed:
			freed = nil
			g.finish(boottime.Now(), 0)
		}
	}
}

// waitForCapacity closes freed unless the lease's claim still keeps others out.
func (k *keeper) waitForCapacity(locks *leasehold.Client, lease *leasehold.Lease, freed chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l, err := locks.Queue(ctx, lease.Name())
	if err == nil && slices.ContainsFunc(l.Claims, func(c engine.Claim) bool {
		return c.Ticket == uint64(lease.Token())>>engine.HandoffBits && c.State == engine.Held
	}) {
		return
	}
	close(freed)
}

// stays is until when this process keeps the name for --min-hold. Without us the engine
// keeps it for its longest TTL, or not at all if it has no detached claims.
func (k *keeper) stays(g engine.Guarantees, obtained time.Duration) time.Duration {
	until := obtained + k.order.MinHold
	if _, longest := g.TTLs(); g.Detach {
		until -= longest
	}
	return until
}

// linger keeps the lease until a moment, unless it is lost or somebody wants
// this process to end.
func (k *keeper) linger(lease *leasehold.Lease, until time.Duration, wake *alarm) {
	for boottime.Now() < until {
		wake.at(until)
		select {
		case <-wake.c():
		case <-lease.Context().Done():
			return
		case <-k.launcher.signals():
			return
		}
	}
}

// lifeFile is a file whose descriptor, in whatever process, keeps the claims
// of an engine's client alive; nil if the engine has none. (The embedded
// engine's claims die with the last descriptor of their client's file: as long
// as anything that the command started lives, the name must not be free.)
func lifeFile(eng engine.Engine) (*os.File, error) {
	if e, ok := eng.(interface{ LifeFile() (*os.File, error) }); ok {
		return e.LifeFile()
	}
	return nil, nil
}

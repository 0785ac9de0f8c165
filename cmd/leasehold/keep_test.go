package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/boottime"
)

// down is an engine that stops answering.
type down struct {
	engine.Engine
	now atomic.Bool
}

func (d *down) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if d.now.Load() {
		return nil, errors.New("no answer")
	}
	return d.Engine.Renew(ctx, rs)
}

// stubLauncher and stubCommand record what the keeper does.
type stubLauncher struct {
	sigs chan syscall.Signal
	dead chan struct{}
	last atomic.Int64 // deadline
}

func (f *stubLauncher) signals() <-chan syscall.Signal { return f.sigs }
func (f *stubLauncher) gone() <-chan struct{}          { return f.dead }
func (f *stubLauncher) asleep() bool                   { return false }
func (f *stubLauncher) running()                       {}
func (f *stubLauncher) keepAlive(*os.File)             {}
func (f *stubLauncher) deadline(at time.Duration)      { f.last.Store(int64(at)) }
func (f *stubLauncher) over()                          {}
func (f *stubLauncher) stopped(syscall.Signal)         {}

type stubCommand struct {
	obeys bool          // ends when told
	stall time.Duration // how long a signal keeps its sender
	ended chan struct{}
	once  sync.Once

	mu   sync.Mutex
	did  []string
	when []time.Duration
}

func (c *stubCommand) notification(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did, c.when = append(c.did, what), append(c.when, boottime.Now())
}

func (c *stubCommand) end()                           { c.once.Do(func() { close(c.ended) }) }
func (c *stubCommand) exited() <-chan struct{}        { return c.ended }
func (c *stubCommand) gone() <-chan struct{}          { return c.ended }
func (c *stubCommand) orphaned() <-chan struct{}      { return nil }
func (c *stubCommand) letGo()                         {}
func (c *stubCommand) status() status                 { return status{Code: 3} }
func (c *stubCommand) stopped() <-chan syscall.Signal { return nil }
func (c *stubCommand) kill()                          { c.notification("kill"); c.end() }
func (c *stubCommand) signal(sig syscall.Signal) {
	c.notification(sig.String())
	time.Sleep(c.stall)
}
func (c *stubCommand) notify() {
	if c.notification("tell"); c.obeys {
		c.end()
	}
}

// kept is a keeper under which a command runs.
type kept struct {
	eng      *down
	launcher *stubLauncher
	cmd      *stubCommand
	locks    *leasehold.Client
	ticket   uint64
	start    time.Duration

	done chan struct{}
	end  status
	err  error
}

func keepStub(t *testing.T, o order, obeys bool) *kept {
	return keepStubOn(t, memlock.New(), o, obeys)
}

func keepStubOn(t *testing.T, eng engine.Engine, o order, obeys bool) *kept {
	k := &kept{
		eng:      &down{Engine: eng},
		launcher: &stubLauncher{sigs: make(chan syscall.Signal, 1), dead: make(chan struct{})},
		cmd:      &stubCommand{obeys: obeys, ended: make(chan struct{})},
		done:     make(chan struct{}),
		start:    boottime.Now(),
	}
	o.Name, o.Lost, o.Command = "name", 76, []string{"command"}
	keeper := &keeper{app: &app{}, order: &o, launcher: k.launcher, renewed: make(chan struct{}, 1),
		run: func(*order, []string, *os.File) (command, error) { return k.cmd, nil }}
	var err error
	k.locks, err = leasehold.New(k.eng, &leasehold.Options{TTL: o.TTL, NoLocalHandoff: true, Observer: keeper.observe})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := keeper.obtain(t.Context(), k.locks)
	if err != nil {
		t.Fatal(err)
	}
	k.ticket = uint64(lease.Token()) >> engine.HandoffBits
	go func() {
		defer close(k.done)
		k.end, k.err = keeper.under(k.locks, lease)
	}()
	t.Cleanup(func() {
		k.cmd.end()
		<-k.done
		k.locks.Close()
	})
	until(t, "the command is started", func() bool { return k.launcher.last.Load() != 0 })
	return k
}

// full waits until more is trusted than at first, when a claim has a short TTL.
func (k *kept) full(t *testing.T, ttl time.Duration) {
	t.Helper()
	until(t, "the full TTL was granted", func() bool {
		return time.Duration(k.launcher.last.Load())-k.start > ttl*9/10
	})
}

func (k *kept) wait(t *testing.T) (did []string, code int) {
	select {
	case <-k.done:
	case <-time.After(patience):
		t.Fatal("the command goes on")
	}
	code = k.end.code()
	var exit *exitError
	if errors.As(k.err, &exit) {
		code = exit.code
	}
	return k.cmd.did, code
}

func TestRenewalsFail(t *testing.T) {
	t.Parallel()
	for _, obeys := range []bool{true, false} {
		t.Run(map[bool]string{true: "told in the last third", false: "killed at the end"}[obeys], func(t *testing.T) {
			t.Parallel()
			const ttl = 12 * time.Second // a third of it is longer than the machine may be busy for
			k := keepStub(t, order{TTL: ttl}, obeys)
			k.full(t, ttl)
			k.eng.now.Store(true)
			did, code := k.wait(t)
			want := []string{"tell"}
			if !obeys {
				want = []string{"tell", "kill"}
			}
			if !slices.Equal(did, want) || code != 76 {
				t.Fatalf("%v, exit code %d", did, code)
			}
			g := guard{granted: ttl}
			trusted := time.Duration(k.launcher.last.Load()) + g.killTime()/2
			// How late is the machine's business; never early is ours.
			if early := trusted - ttl/3 - k.cmd.when[0]; early > 0 {
				t.Errorf("told %v before the last third", early)
			}
			if !obeys {
				if early := trusted - g.killTime() - k.cmd.when[1]; early > 0 {
					t.Errorf("killed %v before trust ended", early)
				}
			}
			if k.err == nil || !strings.Contains(k.err.Error(), "name could not be renewed in time") {
				t.Errorf("%v", k.err)
			}
		})
	}
}

// A keeper that stands still until the end of --max-hold kills for that, and the lock could be
// renewed.
func TestMaxHoldPassesWhileTheKeeperStandsStill(t *testing.T) {
	t.Parallel()
	k := keepStub(t, order{TTL: 30 * time.Second, MaxHold: 3 * time.Second}, false)
	k.full(t, 30*time.Second)
	k.cmd.stall = 4 * time.Second
	k.launcher.sigs <- syscall.SIGHUP
	if did, code := k.wait(t); !slices.Contains(did, "kill") || code != 76 || !errors.Is(k.err, leasehold.ErrMaxHold) {
		t.Errorf("%v, exit code %d, %v", did, code, k.err)
	}
}

func TestEngineIsDownForAMoment(t *testing.T) {
	t.Parallel()
	k := keepStub(t, order{TTL: 6 * time.Second}, false)
	k.full(t, 6*time.Second)
	k.eng.now.Store(true)
	time.Sleep(500 * time.Millisecond)
	k.eng.now.Store(false)
	before := time.Duration(k.launcher.last.Load())
	until(t, "it is renewed", func() bool { return time.Duration(k.launcher.last.Load()) > before+time.Second })
	k.cmd.end()
	if did, code := k.wait(t); len(did) > 0 || code != 3 {
		t.Errorf("%v, exit code %d", did, code)
	}
}

func TestFrontIsGone(t *testing.T) {
	t.Parallel()
	k := keepStub(t, order{TTL: 30 * time.Second}, false)
	k.full(t, 30*time.Second)
	gone := boottime.Now()
	close(k.launcher.dead)
	if did, code := k.wait(t); !slices.Equal(did, []string{"tell", "kill"}) || code != 76 {
		t.Errorf("%v, exit code %d", did, code)
	}
	// Not from when it was told: that may be late by itself.
	if after := k.cmd.when[1] - gone; after < grace {
		t.Errorf("killed after a grace of %v", after)
	}
}

func TestRevokedNowIsKilledAtOnce(t *testing.T) {
	k := keepStub(t, order{TTL: time.Hour}, false)
	if err := k.locks.RevokeNow(t.Context(), "name", k.ticket); err != nil {
		t.Fatal(err)
	}
	if did, code := k.wait(t); !slices.Contains(did, "kill") || code != 76 || !errors.Is(k.err, leasehold.ErrRevoked) {
		t.Errorf("%v, exit code %d, %v", did, code, k.err)
	}
}

// sticky is an engine that cannot keep a name without its client.
type sticky struct{ engine.Engine }

func (s sticky) Guarantees() engine.Guarantees {
	g := s.Engine.Guarantees()
	g.Detach = false
	return g
}

// Where the engine cannot keep the name for the rest of --min-hold the keeper stays for
// it, until somebody wants it to end.
func TestSignalEndsTheRestOfMinHold(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		k := keepStubOn(t, sticky{memlock.New()}, order{TTL: 30 * time.Second, MinHold: time.Hour}, false)
		k.cmd.end()
		enough := time.After(patience)
		for over := false; !over; {
			select {
			case k.launcher.sigs <- sig: // one may still be the command's
			case <-k.done:
				over = true
			case <-enough:
				t.Fatalf("%v does not end it", sig)
			}
		}
		if k.err != nil || k.end.code() != 3 {
			t.Errorf("exit code %d, %v", k.end.code(), k.err)
		}
	}
}

// drowsy is a launcher that somebody has stopped when it is asked the first and the third
// time.
type drowsy struct {
	stubLauncher
	asked int
}

func (f *drowsy) asleep() bool {
	f.asked++
	return f.asked == 1 || f.asked == 3
}

// A job that is stopped again when its turn comes again passes that one as well.
func TestAWaiterThatIsStoppedAgainPassesAgain(t *testing.T) {
	var said strings.Builder
	launcher := &drowsy{}
	k := &keeper{app: &app{err: &said}, order: &order{Name: "name"}, launcher: launcher}
	locks, err := leasehold.New(memlock.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := k.obtain(t.Context(), locks)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Unlock()
	if n := strings.Count(said.String(), "and goes to the next waiter"); n != 2 || launcher.asked != 5 {
		t.Errorf("passed %d times, looked %d times: %s", n, launcher.asked, said.String())
	}
}

func TestLostBeforeTheStart(t *testing.T) {
	var ran atomic.Bool
	locks, err := leasehold.New(memlock.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Lock(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	if err := locks.RevokeNow(t.Context(), "name", uint64(lease.Token())>>engine.HandoffBits); err != nil {
		t.Fatal(err)
	}
	<-lease.Context().Done()
	k := &keeper{app: &app{}, order: &order{Name: "name", Lost: 76}, launcher: &stubLauncher{},
		run: func(*order, []string, *os.File) (command, error) { ran.Store(true); return nil, errors.New("started") }}
	_, err = k.under(locks, lease)
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != 76 || !errors.Is(err, leasehold.ErrRevoked) || ran.Load() {
		t.Errorf("%v, started: %v", err, ran.Load())
	}
}

// untold is a command whose reaper was killed, and of which nothing is left.
type untold struct{ *stubCommand }

func (untold) exited() <-chan struct{} { return nil }
func (untold) status() status          { return status{} }

func TestAnEndOfWhichNobodyToldIsNoSuccess(t *testing.T) {
	locks, err := leasehold.New(memlock.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Lock(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	cmd := &stubCommand{ended: make(chan struct{})}
	cmd.end()
	k := &keeper{app: &app{}, order: &order{Name: "name", Lost: 76, Command: []string{"command"}}, launcher: &stubLauncher{},
		run: func(*order, []string, *os.File) (command, error) { return untold{cmd}, nil }}
	if _, err := k.under(locks, lease); codeOf(err) != 76 || !errors.Is(err, errOrphaned) {
		t.Errorf("%v", err)
	}
}

func TestRevokedPolitelyHasItsTrust(t *testing.T) {
	t.Parallel()
	k := keepStub(t, order{TTL: 6 * time.Second}, false)
	k.full(t, 6*time.Second)
	if err := k.locks.Revoke(t.Context(), "name", k.ticket); err != nil {
		t.Fatal(err)
	}
	did, code := k.wait(t)
	if !slices.Equal(did, []string{"tell", "kill"}) || code != 76 || !errors.Is(k.err, leasehold.ErrRevoked) {
		t.Fatalf("%v, exit code %d, %v", did, code, k.err)
	}
	if gap := k.cmd.when[1] - k.cmd.when[0]; gap < time.Second {
		t.Errorf("killed %v after it was told", gap)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	k := keepStub(t, order{TTL: 30 * time.Second}, false)
	k.full(t, 30*time.Second)
	k.launcher.sigs <- syscall.SIGHUP
	until(t, "the command has it", func() bool {
		k.cmd.mu.Lock()
		defer k.cmd.mu.Unlock()
		return slices.Equal(k.cmd.did, []string{syscall.SIGHUP.String()})
	})
}

// Where the engine keeps the name for the rest of --min-hold, nobody stays for it; where it
// does so for its longest TTL only, the keeper stays until that is enough.
func TestTheKeeperStaysForWhatTheEngineDoesNotKeep(t *testing.T) {
	const obtained = 48 * time.Hour
	k := &keeper{order: &order{MinHold: 5 * time.Minute}}
	for what, c := range map[string]struct {
		promises engine.Guarantees
		until    time.Duration
	}{
		"any TTL":                {engine.Guarantees{Detach: true}, obtained + 5*time.Minute - engine.MaxTTL},
		"one minute":             {engine.Guarantees{Detach: true, MaxTTL: time.Minute}, obtained + 4*time.Minute},
		"not without its client": {engine.Guarantees{MaxTTL: time.Minute}, obtained + 5*time.Minute},
	} {
		if got := k.stays(c.promises, obtained); got != c.until {
			t.Errorf("%s: it stays until %v, want %v", what, got, c.until)
		}
	}
}

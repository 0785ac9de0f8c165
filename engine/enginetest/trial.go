package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

// trial is one run of one case.
type trial struct {
	testing.TB
	h Harness
	g engine.Guarantees

	outcome Outcome // set by refused, notDeclared and notExercised
	why     string

	bench bool // see ctx

	// mortal has the earliest end of every claim with a brief life, until
	// the case itself lets it lapse.
	mortal  map[engine.ID]time.Duration
	spoiled string    // what failed after such an end
	clients []*client // of this attempt

	requests sync.Map // what was asked for, by ID
}

func (t *trial) end(o Outcome, format string, args ...any) {
	t.Helper()
	t.outcome, t.why = o, fmt.Sprintf(format, args...)
	t.Skipf("%s: %s", o, t.why)
}

// notExercised ends the case: the harness has no such hook.
func (t *trial) notExercised(hook string) {
	t.Helper()
	t.end(NotExercised, "the harness has no %s", hook)
}

// notDeclared ends the case: the engine does not promise this, and no request
// could ask for it.
func (t *trial) notDeclared(what string) {
	t.Helper()
	t.end(NotDeclared, "%s", what)
}

// mustRefuse ends the case: what r asks for is not declared, so it must be
// refused, and leave nothing.
func (t *trial) mustRefuse(r engine.Request, what string) {
	t.Helper()
	a := t.client()
	c, err := a.Join(t.ctx(), r)
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, engine.ErrRefused) {
		t.Fatalf("%s are not declared, so Join must say errors.ErrUnsupported and engine.ErrRefused; got %v, %v", what, c, err)
	}
	if l := a.line(r.Name); len(l.Claims) > 0 {
		t.Fatalf("the refused Join left %v", l.Claims)
	}
	t.end(Refused, "%s: errors.ErrUnsupported", what)
}

// Needs end the case where the engine does not declare what it is about.

func (t *trial) needsFIFO() {
	t.Helper()
	if t.g.Order != engine.FIFO {
		t.notDeclared("Order is " + t.g.Order.String())
	}
}

func (t *trial) needsWaiters() {
	t.Helper()
	if !t.g.SeesWaiters {
		t.notDeclared("the engine does not see who waits")
	}
}

func (t *trial) needsNotifications() {
	t.Helper()
	if t.h.Polls {
		t.notDeclared("the engine sends no notifications: waiters poll after PollAfter")
	}
}

func (t *trial) needsMode(m engine.Modes) {
	t.Helper()
	if t.g.Modes&m != m {
		t.notDeclared("needs the modes " + m.String())
	}
}

// ctx bounds one call. Longer than any call may take when all is well, so
// that an engine which ignores its context does not hang the suite silently.
func (t *trial) ctx() context.Context {
	if t.bench {
		return t.Context() // no timer and no clean-up for each of a million calls
	}
	ctx, cancel := context.WithTimeout(t.Context(), t.h.Patience)
	t.Cleanup(cancel)
	return ctx
}

// name is a name nobody uses. Lower case only: what differs by case alone is
// the business of names.go.
func (t *trial) name() string { return fmt.Sprintf("suite:%016x", rand.Uint64()) }

// long is a TTL that does not end during a case.
func (t *trial) long() time.Duration { return t.clip(time.Minute) }

// short is a TTL that is meant to end.
func (t *trial) short() time.Duration { return t.clip(t.h.ShortTTL) }

func (t *trial) clip(d time.Duration) time.Duration {
	if t.g.MaxTTL > 0 {
		d = min(d, t.g.MaxTTL)
	}
	return max(d, t.g.MinTTL, engine.MinTTL)
}

func (t *trial) exclusive(name string) engine.Request { return t.want(name, engine.Max, engine.Max) }
func (t *trial) reader(name string) engine.Request    { return t.want(name, 1, engine.Max) }

func (t *trial) want(name string, permits, limit int32) engine.Request {
	return engine.Request{
		Name: name, ID: engine.NewID(), Permits: permits, Limit: limit, WaitTTL: t.long(),
		Owner: engine.Owner{Host: "suite", PID: os.Getpid(), Label: "enginetest"},
	}
}

// brief is r with a lifetime that is meant to end.
func (t *trial) brief(r engine.Request) engine.Request {
	r.WaitTTL = t.short()
	return r
}

// lapse lets claim c of client a pass its deadline, and returns the client
// through which its owner may still ask. On session engines only a client's
// death ends its claims, so a is killed and another one asks.
func (t *trial) lapse(a *client, c engine.Claim) *client {
	t.Helper()
	delete(t.mortal, c.ID)
	if t.g.CrashRelease == engine.CrashSession {
		t.kill(a)
		// TTL is what may be trusted. The session can be twice as long, and a server late:
		// its end is seen when the claim is no longer shown.
		t.h.Sleep(c.TTL)
		b := t.client()
		shown := func(l engine.Claim) bool { return l.Ticket == c.Ticket }
		for late := time.Now().Add(t.h.Patience); slices.ContainsFunc(b.line(c.Name).Claims, shown) && time.Now().Before(late); {
			t.h.Sleep(20 * time.Millisecond)
		}
		return b
	}
	t.h.Sleep(c.TTL + max(20*time.Millisecond, c.TTL/20))
	return a
}

// kill ends a client as the death of its process would.
func (t *trial) kill(a *client) {
	t.Helper()
	if t.h.Kill == nil {
		t.notExercised("Kill")
	}
	a.dead = true
	t.h.Kill(t.TB, a.Unwrap())
}

// A case with a brief claim can be spoiled by a busy machine: the claim ends
// before the case meant it to. attempt runs a case and reports whether it came
// to a verdict; a spoiled one is run again, with new clients and names.
func (t *trial) attempt(run func(*trial)) (verdict bool) {
	defer func() {
		if p := recover(); p == spoiled {
			verdict = false
			for _, a := range t.clients { // some names are the same the next time
				_ = a.Close()
			}
		} else if p != nil {
			panic(p)
		}
	}()
	t.mortal, t.clients = map[engine.ID]time.Duration{}, nil
	run(t)
	return true
}

// Fatalf fails the case, unless a brief claim may have ended by itself: then what
// it saw proves nothing. For the case's own goroutine.
func (t *trial) Fatalf(format string, args ...any) {
	t.Helper()
	t.Fatal(fmt.Sprintf(format, args...))
}

// Fatal is Fatalf without a format.
func (t *trial) Fatal(args ...any) {
	t.Helper()
	for _, end := range t.mortal {
		if t.h.Now() >= end {
			t.tooSlow(args...)
		}
	}
	t.TB.Fatal(args...)
}

// tooSlow ends the attempt: what failed proves nothing.
func (t *trial) tooSlow(args ...any) {
	t.spoiled = fmt.Sprint(args...)
	panic(spoiled)
}

var spoiled = new(int)

// attempts bounds how often a spoiled case is run again.
const attempts = 20

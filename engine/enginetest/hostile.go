package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"leasehold/engine"
)

func hostile() promise {
	return promise{"hostile data", "with junk in the record of a name, every call answers and other names go on", []kase{
		{"junk is a clear error and hurts no other name", func(t *trial) {
			if len(t.h.Spoil) == 0 {
				t.notExercised("Spoil")
			}
			t.needsMode(engine.Exclusive)
			a, b := t.client(), t.client()
			for _, kind := range slices.Sorted(maps.Keys(t.h.Spoil)) {
				for _, before := range []string{"nobody", "a holder", "a holder and who waits"} {
					t.spoil(a, b, kind, before)
				}
			}
		}},
	}}
}

// spoil puts one kind of junk where a name is kept, and makes every call.
func (t *trial) spoil(a, b *client, kind, before string) {
	t.Helper()
	prefix := t.name()
	name, sound := prefix+"/spoiled", prefix+"/sound"
	fine := a.hold(t.exclusive(sound))
	claims := []engine.Claim{{Name: name, ID: engine.NewID()}, {Name: name, ID: engine.NewID()}}
	if before != "nobody" {
		claims[0] = a.hold(t.exclusive(name))
	}
	if before == "a holder and who waits" {
		claims[1] = b.wait(t.exclusive(name))
	}
	t.h.Spoil[kind](t.TB, name)
	noWait := t.exclusive(name)
	noWait.NoWait = true
	replaces := t.exclusive(name)
	replaces.Replaces = claims[0].ID
	for _, step := range []struct {
		what string
		call func(context.Context) error
	}{
		{"Renew of who held", func(ctx context.Context) error { _, err := a.Renew(ctx, t.renewals(claims[0])); return err }},
		{"Renew of who waited", func(ctx context.Context) error { _, err := b.Renew(ctx, t.renewals(claims[1])); return err }},
		{"Queue", func(ctx context.Context) error { _, err := a.Queue(ctx, name); return err }},
		{"Join", func(ctx context.Context) error { _, err := a.Join(ctx, t.exclusive(name)); return err }},
		{"Join without waiting", func(ctx context.Context) error { _, err := b.Join(ctx, noWait); return err }},
		{"Join of one permit", func(ctx context.Context) error { _, err := b.Join(ctx, t.reader(name)); return err }},
		{"Join that replaces", func(ctx context.Context) error { _, err := a.Join(ctx, replaces); return err }},
		{"Revoke", func(ctx context.Context) error { return b.Revoke(ctx, name, max(1, claims[1].Ticket), false) }},
		{"Revoke at once", func(ctx context.Context) error { return b.Revoke(ctx, name, max(1, claims[0].Ticket), true) }},
		{"Leave of who waited", func(ctx context.Context) error { _, err := b.Leave(ctx, claims[1:]); return err }},
		{"Leave of who held", func(ctx context.Context) error { _, err := a.Leave(ctx, claims[:1]); return err }},
	} {
		_ = t.answers(step.what, kind, before, step.call)
		a.is(fine, engine.Held, fmt.Sprintf("another name is spoiled (%s, after %s), and %s was called", kind, before, step.what))
	}
	_ = t.answers("Lines", kind, before, func(ctx context.Context) error {
		shown, failed := false, error(nil)
		for l, err := range b.Queues(ctx, prefix) {
			if err != nil {
				failed = err
				break
			}
			shown = shown || l.Name == sound
		}
		if !shown && failed == nil {
			t.Errorf("Queues of a prefix with a spoiled name (%s) leaves a sound one out, without an error", kind)
		}
		return failed
	})
	t.lines(b, sound, map[string]bool{sound: true})
	b.taken(sound, "it is held, beside a spoiled name")
	a.leave(fine)
	b.free(sound, "its holder left it, beside a spoiled name")
}

// answers makes one call, which must come back within the Patience by itself.
func (t *trial) answers(what, kind, before string, call func(context.Context) error) error {
	t.Helper()
	type answer struct {
		err   error
		panic string
	}
	back := make(chan answer, 1)
	ctx := t.ctx()
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			back <- a
		}()
		a.err = call(ctx)
	}()
	select {
	case a := <-back:
		switch {
		case a.panic != "":
			t.Fatalf("%s of a spoiled name (%s, after %s) panics: %s", what, kind, before, a.panic)
		case errors.Is(a.err, context.DeadlineExceeded):
			t.Fatalf("%s of a spoiled name (%s, after %s) answers nothing: %v", what, kind, before, a.err)
		}
		return a.err
	case <-time.After(2 * t.h.Patience):
		t.Fatalf("%s of a spoiled name (%s, after %s) hangs", what, kind, before)
		return nil
	}
}

package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
)

func leaks() promise {
	return promise{"leaks", "a client ends its goroutines, and an engine removes the records of unused names", []kase{
		{"no goroutine is left", func(t *trial) {
			// A label is inherited by every goroutine started below, so that
			// others that come and go meanwhile are not blamed.
			label := fmt.Sprintf("enginetest-%x", rand.Uint64())
			pprof.Do(t.Context(), pprof.Labels("leak", label), func(ctx context.Context) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					t.useAndClose(ctx)
				}()
				<-done
			})
			late := time.Now().Add(t.h.Patience)
			for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
				left := goroutines(label)
				if left == "" {
					return
				}
				if time.Now().After(late) {
					t.Fatalf("every engine was closed, and these goroutines go on:\n%s", left)
				}
				time.Sleep(wait)
			}
		}},
		{"no records of names are left", func(t *trial) {
			if t.h.CountKeys == nil {
				t.notExercised("CountKeys")
			}
			a, b, prefix := t.client(), t.client(), t.name()
			before := t.h.CountKeys(t.TB)
			var brief []engine.Claim
			for i := range 50 {
				name := fmt.Sprintf("%s/%d", prefix, i)
				first := a.hold(t.exclusive(name))
				second := b.join(t.exclusive(name))
				b.try(t.exclusive(name))
				_, _ = b.Revoke(t.ctx(), name, 0, true), b.line(name)
				a.leave(first)
				b.awaits(second)
				b.leave(second)
				c, _ := a.Join(t.ctx(), t.brief(t.exclusive(name+"/expires")))
				brief = append(brief, c)
			}
			// What nobody touches again must go as well, while others work.
			last := t.lapse(a, brief[len(brief)-1])
			late := time.Now().Add(t.h.Patience)
			for {
				for range 10 {
					last.leave(last.hold(t.exclusive(prefix + "/work")))
				}
				after := t.h.CountKeys(t.TB)
				if after <= before {
					return
				}
				if time.Now().After(late) {
					t.Fatalf("the store had %d records; 100 names came and went, and it has %d", before, after)
				}
				t.h.Sleep(50 * time.Millisecond)
			}
		}},
	}}
}

// useAndClose lets two engines live a full life. It runs on a goroutine of its
// own, so it ends no case.
func (t *trial) useAndClose(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.h.Patience)
	defer cancel()
	one, two := checked.New(t.h.New(t.TB)), checked.New(t.h.New(t.TB))
	ended := make(chan struct{}, 2)
	for _, e := range []*checked.Engine{one, two} {
		go func() {
			_ = e.Watch(ctx, func(engine.Claim) {})
			ended <- struct{}{}
		}()
	}
	for range 20 {
		name := t.name()
		first, err := one.Join(ctx, t.exclusive(name))
		if err != nil {
			t.Errorf("Join: %v", err)
		}
		second, err := two.Join(ctx, t.exclusive(name))
		if err != nil {
			t.Errorf("Join: %v", err)
		}
		_, _ = two.Renew(ctx, t.renewals(second))
		_, _ = one.Leave(ctx, []engine.Claim{first})
		gone, stop := context.WithCancel(ctx)
		stop()
		_, _ = one.Join(gone, t.exclusive(name))
		_, _ = two.Leave(ctx, []engine.Claim{second})
	}
	for _, e := range []*checked.Engine{one, two} {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(t.h.Patience):
			t.Error("Watch goes on after Close")
		}
	}
}

// goroutines are the stacks that carry the label.
func goroutines(label string) string {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	var found []string
	for _, stack := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(stack, label) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

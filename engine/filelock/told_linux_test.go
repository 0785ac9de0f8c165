package filelock

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

// A holder was told that somebody wanted the name, and died. Nobody is left to
// be told by the next request, which must look all the same.
func TestADeadHolderThatWasToldRefuses(t *testing.T) {
	for _, refused := range []string{"a TryLock", "another limit"} {
		t.Run(refused, func(t *testing.T) {
			dir := t.TempDir()
			dead, b := &client{Engine: openEngine(t, dir, quiet())}, openEngine(t, dir, quiet())
			mustJoin(t, dead.Engine, exclusive("x"), engine.Held)
			mustLeave(t, b, mustJoin(t, b, exclusive("x"), engine.Waiting), engine.Waiting)
			dead.die()
			defer dead.Close()
			r := exclusive("x")
			if refused == "a TryLock" {
				r.NoWait = true
			} else {
				r.Permits, r.Limit = 1, 3
			}
			mustJoin(t, b, r, engine.Held)
		})
	}
}

// What Watch hears of a revocation by another client says that it was one.
func TestARevocationIsNotSaidToBeOne(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, quiet()), openEngine(t, dir, quiet())
	ctx, cancel := context.WithCancel(t.Context())
	notifications, ended := make(chan engine.Claim, 64), make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Watch(ctx, func(c engine.Claim) { notifications <- c })
	}()
	defer func() { cancel(); <-ended }()
	<-notifications
	c := mustJoin(t, a, exclusive("x"), engine.Held)
	if err := b.Revoke(t.Context(), "x", c.Ticket, false); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-notifications:
		if got.ID != c.ID || got.State != engine.Gone || !got.Revoked {
			t.Errorf("told was %+v", got)
		}
	case <-time.After(patient):
		t.Error("the holder was not told")
	}
}

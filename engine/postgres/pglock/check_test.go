package pglock

import (
	"errors"
	"testing"

	"leasehold/engine"
)

// Settings that change under a client are seen when it looks again.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := server(t)
	e := open(t, s.URL("", ""))
	if err := e.Check(within(t)); err != nil {
		t.Error(err)
	}
	admin := connect(t, s.URL("", ""))
	do(t, admin, `ALTER SYSTEM SET fsync = off`)
	do(t, admin, `SELECT pg_reload_conf()`)
	until(t, "it is never seen that nothing is stored", func() bool { return errors.Is(e.Check(within(t)), engine.ErrRefused) })
	do(t, admin, `ALTER SYSTEM RESET fsync`)
	do(t, admin, `ALTER SYSTEM SET default_transaction_read_only = on`)
	do(t, admin, `SELECT pg_reload_conf()`)
	until(t, "fsync stays off", func() bool { return get[string](t, admin, `SELECT current_setting('fsync')`) == "on" })
	until(t, "it is never seen that it only reads", func() bool { return errors.Is(e.Check(within(t)), engine.ErrRefused) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(within(t)); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("of a server that is gone it says %v", err)
	}
}

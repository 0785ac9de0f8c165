package mysqllock

import (
	"errors"
	"testing"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// Settings that change under a client are seen when it looks again, which Watch says after
// each new connection.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	e := open(t, s.URL("", ""))
	check := func(sql string, refused bool) {
		t.Helper()
		if _, err := s.Query(sql); err != nil {
			t.Fatal(err)
		}
		if err := e.Check(within(t)); errors.Is(err, engine.ErrRefused) != refused || !refused && err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	check("SELECT 1", false)
	check("SET GLOBAL innodb_flush_log_at_trx_commit = 2", true)
	check("SET GLOBAL innodb_flush_log_at_trx_commit = 1", false)
	check("SET GLOBAL innodb_flush_log_at_trx_commit = 2", true)
	// What was opened so declares it, and nothing has changed under that.
	declares := open(t, s.URL("", ""))
	if g := declares.Guarantees(); g.Fencing != engine.FencingMemory {
		t.Errorf("void: it declares %v", g.Fencing)
	}
	if err := declares.Check(within(t)); err != nil {
		t.Errorf("it was opened so: %v", err)
	}
	check("SET GLOBAL innodb_flush_log_at_trx_commit = 1", false)
	packet, err := s.Query("SELECT @@GLOBAL.max_allowed_packet")
	if err != nil {
		t.Fatal(err)
	}
	e.client.db.SetMaxIdleConns(0) // a connection has the packet that it began with
	if _, err := s.Query("SET GLOBAL max_allowed_packet = 32768"); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "it is never seen that less fits into a packet", func() bool { return errors.Is(e.Check(within(t)), engine.ErrRefused) })
	if _, err := s.Query("SET GLOBAL max_allowed_packet = " + packet); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "it is refused though as much fits as before", func() bool { return e.Check(within(t)) == nil })
	check("SET GLOBAL read_only = ON", true)
	check("SET GLOBAL read_only = OFF", false)
	received := testutil.Watch(t, e)
	for len(received) > 0 {
		<-received
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "no call is answered after the restart", func() bool { return e.Check(within(t)) == nil })
	testutil.Expect(t, received, func(c engine.Claim) bool { return c.Name == "" })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(within(t)); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("of a server that is gone it says %v", err)
	}
}

package mysqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

// What fails a call says why, and what to do.
func TestErrorsSayWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	says := func(number uint16) error { return &mysql.MySQLError{Number: number, Message: "words of the server"} }
	for _, c := range []struct {
		err       error
		why, todo string
	}{
		{mysql.ErrInvalidConn, "the connection ended before the answer", "look into the server's log"},
		{driver.ErrBadConn, "the connection ended before the answer", "look into the server's log"},
		{context.DeadlineExceeded, "no answer in time", "INNODB_TRX"},
		{says(1317), "the server ended this call", "look into its log"},
		{says(1927), "the server ended this call", "look into its log"},
		{says(1053), "the server ended this call", "look into its log"},
		{says(1969), "max_statement_time", "look into its log"},
		{says(1205), "keeps a row or a table of leasehold locked", "end it"},
		{says(1213), "was rolled back, 20 times", "let all clients use one server"},
	} {
		got := explain(c.err)
		if !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.why) || !strings.Contains(got.Error(), c.todo) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A client that has one claim at a time takes one connection, beside those of its doorbell.
func TestAClientOfOneClaimIsOneSession(t *testing.T) {
	t.Parallel()
	e := open(t, database(t))
	for range 3 {
		c := testutil.Joins(t, e, testutil.Exclusive("a"), engine.Held)
		testutil.Renew(t, e, c, time.Minute)
		testutil.Leaves(t, e, c, engine.Held)
	}
	if n := e.client.db.Stats().OpenConnections; n != 1 {
		t.Errorf("it has %d connections", n)
	}
}

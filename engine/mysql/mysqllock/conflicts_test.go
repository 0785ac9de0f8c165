package mysqllock

import (
	"testing"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// A cluster ends calls that contend for one name at their commit, several times in a
// row: each has left nothing, and is made again. (Here a procedure says what it would.)
func TestConflictsInARowCostNothingButTime(t *testing.T) {
	t.Parallel()
	if servers.MySQLD() != "" {
		servers.Missing(t, "MySQL refuses a table without transactions inside one")
	}
	url := database(t)
	e, db := open(t, url), connect(t, url)
	const conflicts = 10
	do(t, db, `CREATE TABLE ended (times INT) ENGINE = MyISAM`) // which no rollback takes back
	do(t, db, `INSERT INTO ended VALUES (0)`)
	replace(t, db, "store", "BEGIN\n", `BEGIN
		UPDATE ended SET times = times + 1;
		IF (SELECT times FROM ended) <= 10 THEN
			SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'a conflict';
		END IF;
`)
	if c := join(t, e, exclusive("a")); c.State != engine.Held {
		t.Errorf("after the conflicts it is %v", c.State)
	}
	if n := get[int](t, db, `SELECT times FROM ended`); n != conflicts+1 {
		t.Errorf("%d calls, not one more than %d conflicts", n, conflicts)
	}
}

package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

// mostTables bounds how many tables are read.
const mostTables = 100

// lockTable is one that counts as a table of locks, with its columns that are times.
type lockTable struct {
	schema, name, engine  string
	transactions, comment string // what the server says of the engine, and of the table
	times                 []string
}

func (t *lockTable) String() string { return quoted(t.schema) + "." + quoted(t.name) }

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// tables examines tables of locks that programs keep by hand: a row for each lock. Where
// the newest time in one is old and there are rows, the owners are likely dead. The server
// lists only the tables that this user may read.
func (x *examiner) tables(ctx context.Context) error {
	all, err := x.lockTables(ctx)
	if err != nil {
		return err
	}
	if len(all) > mostTables {
		x.Stopped("%d of %d tables were read", mostTables, len(all))
		all = all[:mostTables]
	}
	for _, t := range all {
		x.judge(t)
		// Of ShedLock a row stays when its lock is free.
		if len(t.times) == 0 || slices.Contains(t.times, "lock_until") {
			continue
		}
		if err := x.read(ctx, "the table "+t.String(), "SELECT on the tables", func(ctx context.Context, tx *sql.Tx) error { return x.rows(ctx, tx, t) }); err != nil {
			return err
		}
	}
	return nil
}

// judge examines the engine of one table. RocksDB and NDB have transactions too.
func (x *examiner) judge(t *lockTable) {
	switch {
	case t.engine == "": // the comment is the server's error
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "a table of locks cannot be opened",
			Means: "The server knows its name and cannot read it: it is damaged, or its engine is not loaded. A client that locks there gets an error.",
			Do:    "Look at the server's error log, and repair the table or load its engine.",
		}, "%s: %s", t, t.comment)
	case t.transactions == "NO":
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "a table of locks is not InnoDB",
			Means: "Such a table has no transactions: a lock that is part of one is taken at once and stays after a rollback, and a crash may damage it.",
			Do:    "Run ALTER TABLE ... ENGINE = InnoDB while nobody locks.",
		}, "%s is %s", t, t.engine)
	}
}

// lockTables lists them, without those of leasehold.
func (x *examiner) lockTables(ctx context.Context) (all []*lockTable, err error) {
	err = x.read(ctx, "the list of tables", "", func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(row map[string]string) error {
			if name := row["name"]; !x.Counts(name) || strings.HasPrefix(name, "leasehold") {
				return nil
			}
			if last := len(all) - 1; last < 0 || all[last].schema != row["in_schema"] || all[last].name != row["name"] {
				all = append(all, &lockTable{schema: row["in_schema"], name: row["name"], engine: row["of_engine"], transactions: row["transactions"], comment: row["comment"]})
			}
			if column := row["of_column"]; column != "" {
				all[len(all)-1].times = append(all[len(all)-1].times, column)
			}
			return nil
		}, `SELECT t.TABLE_SCHEMA AS in_schema, t.TABLE_NAME AS name, t.ENGINE AS of_engine, t.TABLE_COMMENT AS comment, e.TRANSACTIONS AS transactions, c.COLUMN_NAME AS of_column FROM information_schema.TABLES t
			LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
			LEFT JOIN information_schema.COLUMNS c ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME AND c.DATA_TYPE IN ('timestamp', 'datetime')
			WHERE t.TABLE_TYPE = 'BASE TABLE' AND t.TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
			ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, c.ORDINAL_POSITION`)
	})
	return all, err
}

// rows examines the rows of one table, as many as the limit allows.
func (x *examiner) rows(ctx context.Context, tx *sql.Tx, t *lockTable) error {
	var columns, ages, given []string
	for _, name := range t.times {
		column := quoted(name)
		columns, given = append(columns, column), append(given, column+" IS NOT NULL")
		// The zone is the program's: the less of both is certain. A column without any
		// time is older than all.
		for _, now := range []string{"NOW()", "UTC_TIMESTAMP()"} {
			ages = append(ages, "COALESCE(TIMESTAMPDIFF(SECOND, MAX("+column+"), "+now+"), 999999999)")
		}
	}
	var read, count, seconds int64
	err := tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT COUNT(*), COALESCE(SUM(%s), 0), LEAST(%s) FROM (SELECT %s FROM %s LIMIT %d) x`,
		strings.Join(given, " OR "), strings.Join(ages, ", "), strings.Join(columns, ", "), t, x.Limit)).Scan(&read, &count, &seconds)
	switch old := findings.Age(float64(seconds)); {
	case err != nil:
		return err
	case read >= int64(x.Limit):
		x.Stopped("%d rows of %s were read, the newest of these is %s old", read, t, old) // a newer one may follow
	case count > 0 && float64(seconds) >= x.dead.Seconds():
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "rows of locks in MySQL that look dead",
			Means: "A row is a lock that somebody holds, and nobody has written the table for long. If the owners are dead, these names are blocked for ever.",
			Do:    "Look whether the owners live, and delete the rows of dead ones. Use a lock that expires by itself.",
		}, "%s has %d, the newest is %s old", t, count, old)
	}
	return nil
}

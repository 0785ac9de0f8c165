package pglock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

// mostTables bounds how many tables are read.
const mostTables = 100

// lockTable is one that counts as a table of locks, with its columns that are times.
type lockTable struct {
	pgx.Identifier
	may     bool // this user may read it
	columns []column
}

type column struct {
	name string
	zone bool // the type knows the time zone
}

// tables examines tables of locks that programs keep by hand: a row for each lock. Where
// the newest time in one is old and there are rows, the owners are likely dead.
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
		if !t.may {
			x.Unread("the table "+t.Sanitize(), fmt.Errorf("this user may not select from it"), "SELECT on the tables")
			continue
		}
		if err := x.read(ctx, "the table "+t.Sanitize(), "SELECT on the tables", func(ctx context.Context, tx pgx.Tx) error { return x.rows(ctx, tx, t) }); err != nil {
			return err
		}
	}
	return nil
}

// lockTables lists them, without those of leasehold and of ShedLock.
func (x *examiner) lockTables(ctx context.Context) (all []lockTable, err error) {
	err = x.read(ctx, "the list of tables", "", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT nspname, relname, attname, typname = 'timestamptz', has_table_privilege(c.oid, 'SELECT')
			FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute a ON attrelid = c.oid JOIN pg_type t ON t.oid = atttypid
			WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname NOT IN ('pg_catalog', 'information_schema') AND nspname !~ '^pg_(toast|temp)'
			AND typname IN ('timestamp', 'timestamptz') AND attnum > 0 AND NOT attisdropped ORDER BY 1, 2, attnum`)
		if err != nil {
			return err
		}
		var schema, name string
		var c column
		var may bool
		_, err = pgx.ForEachRow(rows, []any{&schema, &name, &c.name, &c.zone, &may}, func() error {
			if !x.Counts(name) || strings.HasPrefix(name, "leasehold") {
				return nil // leasehold's own have no times
			}
			if last := len(all) - 1; last >= 0 && slices.Equal(all[last].Identifier, pgx.Identifier{schema, name}) {
				all[last].columns = append(all[last].columns, c)
			} else {
				all = append(all, lockTable{pgx.Identifier{schema, name}, may, []column{c}})
			}
			return nil
		})
		return err
	})
	return slices.DeleteFunc(all, lockTable.shedlock), err
}

// shedlock: a row of ShedLock stays when its lock is free.
func (t lockTable) shedlock() bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.name == "lock_until" })
}

// rows examines the rows of one table, as many as the limit allows.
func (x *examiner) rows(ctx context.Context, tx pgx.Tx, t lockTable) error {
	var names, ages []string
	for _, c := range t.columns {
		name := pgx.Identifier{c.name}.Sanitize()
		names = append(names, name)
		newest := `max(` + name + `) FILTER (WHERE isfinite(` + name + `))`
		if c.zone {
			ages = append(ages, `now() - `+newest)
			continue
		}
		// The zone is the program's: the less of both is certain.
		ages = append(ages, `localtimestamp - `+newest, `timezone('utc', now()) - `+newest)
	}
	columns := strings.Join(names, ", ")
	var read, count int
	var seconds float64
	err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE num_nonnulls(%s) > 0), coalesce(extract(epoch FROM least(%s)), 0)::float8 FROM (SELECT %s FROM %s LIMIT %d) x`,
		columns, strings.Join(ages, ", "), columns, t.Sanitize(), x.Limit)).Scan(&read, &count, &seconds)
	switch old := findings.Age(seconds); {
	case err != nil:
		return err
	case read >= x.Limit:
		x.Stopped("%d rows of %s were read, the newest of these is %s old", read, t.Sanitize(), old) // a newer one may follow
	case seconds >= x.dead.Seconds():
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "rows of locks that look dead",
			Means: "A row is a lock that somebody holds, and nobody has written the table for long. If the owners are dead, these names are blocked for ever.",
			Do:    "Look whether the owners live, and delete the rows of dead ones. Use a lock that expires by itself.",
		}, "%s has %d, the newest is %s old", t.Sanitize(), count, old)
	}
	return nil
}

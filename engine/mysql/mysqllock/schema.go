package mysqllock

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// layout is the number of the tables in schema.sql. A client that finds another refuses.
// edition is that of its procedures: who finds an older one replaces it.
const layout, edition = 1, 7

// schema has @ where the prefix that was chosen goes, and each of its statements ends
// with end.
//
//go:embed schema.sql
var schema string

const end = " $$\n"

// object is a table or procedure in schema.sql and in our calls.
var object = regexp.MustCompile(`@(\w+)`)

// in is SQL for the tables and procedures of one prefix.
func (o *Options) in(sql string) string {
	return object.ReplaceAllString(sql, "`"+strings.ReplaceAll(o.Prefix, "$", "$$")+"$1`")
}

// mode is the sql_mode in which the tables and procedures are made. Procedures keep
// it: what does not fit is an error for them, whatever their caller's mode is.
const mode = "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"

// Schema returns the SQL that makes the tables and procedures, for the programs mysql and
// mariadb or a migration. Run it once in a database, and again for a version of this
// package with newer procedures. The command "leasehold schema mysql" prints it. It may
// run while locks are held. [Open] and [New] run it themselves if it is needed and the
// user may. A nil o means the defaults. It does not look for a prefix that differs from this
// one by case or accents alone, and would replace its procedures: see [Options].
func Schema(o *Options) (string, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	return mode + ";\nDELIMITER $$\n" + opts.in(schema) + "DELIMITER ;\n", nil
}

// statements are those of the schema, one by one.
func (o *Options) statements() []string {
	return strings.Split(strings.TrimSuffix(o.in(schema), end), end)
}

// install creates what is missing and replaces what is older. Two clients that come first
// at the same time do it one after the other: the second finds it done. If the connection
// is lost, the part that was made stays; the next client makes the rest.
func (c *client) install(ctx context.Context) error {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer discard(conn) // its sql_mode is not what its pool expects
	var mine sql.NullInt64
	// A lock's name may have 64 characters in MySQL, and MySQL 9.7 has no SHA1 by itself.
	// One for all prefixes of a database: two of them may share procedures.
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), ' leasehold'), 224), 30)").Scan(&mine); err != nil {
		return err
	}
	if mine.Int64 != 1 {
		return errors.New("another client has been creating it for half a minute: try again")
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_ALL_LOCKS()") }() // or its end does
	// Not only before: a client of another prefix may have made them meanwhile.
	if err := c.apart(ctx, conn); err != nil {
		return err
	}
	if _, err := c.layout(ctx, conn); err == nil {
		if newest, _, err := c.edition(ctx, conn); err != nil || newest >= edition {
			return err
		}
	}
	for _, statement := range append([]string{mode}, c.opts.statements()...) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// querier is a pool, or one connection of it.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// layout is the number of the layout that is there. Errors: errNoSchema.
func (c *client) layout(ctx context.Context, db querier) (is int, err error) {
	err = db.QueryRowContext(ctx, c.opts.in(`SELECT layout FROM @swept`)).Scan(&is)
	if errors.Is(err, sql.ErrNoRows) || code(err) == 1146 {
		err = errNoSchema
	}
	return is, err
}

// edition is that of the procedures that are there, and the oldest whose clients they serve.
func (c *client) edition(ctx context.Context, db querier) (newest, oldest int, err error) {
	var text string
	err = db.QueryRowContext(ctx, c.opts.in(`CALL @edition()`)).Scan(&text)
	if code(err) == 1305 { // the first edition does not say, nor does one that is being replaced
		return 1, 1, nil
	}
	if err == nil {
		_, err = fmt.Sscan(text, &newest, &oldest)
	}
	return newest, oldest, err
}

// apart refuses a prefix whose procedures are those of another one. Their names differ neither by
// case nor by accents on any server, and names of tables do. So who installs the second prefix
// would have running programs of the first decide by other tables, and two would hold.
func (c *client) apart(ctx context.Context, db querier) error {
	const one = "join" // every edition has it
	var is string
	var folds int // not 0: neither does case make two tables of one
	err := db.QueryRowContext(ctx, literal(`SELECT CAST(ROUTINE_NAME AS BINARY), @@lower_case_table_names FROM information_schema.ROUTINES
		WHERE ROUTINE_SCHEMA = DATABASE() AND CAST(ROUTINE_SCHEMA AS BINARY) = CAST(DATABASE() AS BINARY) AND ROUTINE_TYPE = 'PROCEDURE'
		AND CONVERT(ROUTINE_NAME USING utf8mb4) COLLATE utf8mb4_general_ci = CONVERT(? USING utf8mb4) COLLATE utf8mb4_general_ci`,
		[]byte(c.opts.Prefix+one))).Scan(&is, &folds)
	switch want := c.opts.Prefix + one; {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return explain(err)
	case is == want, folds != 0 && strings.EqualFold(is, want):
		return nil
	}
	return fmt.Errorf("%w %q, and this program's is %q: their names differ neither by case nor by accents, and those of tables do; let one of the two have a prefix that differs by more",
		errNotApart, strings.TrimSuffix(is, one), c.opts.Prefix)
}

var errNotApart = errors.New("the procedures in this database are those of prefix")

var errNoSchema = errors.New("no tables of leasehold")

// checkPrefix refuses what MySQL would not take as part of a name, and the ? where
// literal puts arguments.
func checkPrefix(s string) error {
	const most = 40 // of 64: names of tables and procedures follow
	if len(s) > most || strings.ContainsAny(s, "\x00`./\\?") {
		return fmt.Errorf("the prefix %q is too long or has one of ` . / \\ ?: it may have %d bytes, and none of these", s, most)
	}
	return nil
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Prefix == "" {
		opts.Prefix = "leasehold_"
	}
	return opts, checkPrefix(opts.Prefix)
}

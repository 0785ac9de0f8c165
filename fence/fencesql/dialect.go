package fencesql

import (
	_ "embed"
	"fmt"
)

// Dialect is the SQL of a server.
type Dialect uint8

const (
	PostgreSQL Dialect = iota + 1 // from version 9.5 on
	MySQL                         // MySQL from 5.7 on, and MariaDB from 10.3 on, with InnoDB
)

func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	}
	return fmt.Sprintf("dialect %d", uint8(d))
}

//go:embed postgres.sql
var postgresSchema string

//go:embed mysql.sql
var mysqlSchema string

// Schema returns the SQL that makes the table of marks if it is missing. The program's
// user then needs SELECT, INSERT and UPDATE on it.
func (d Dialect) Schema() string {
	if d == MySQL {
		return mysqlSchema
	}
	return postgresSchema
}

// raise locks the mark of a name until the transaction ends, makes it at least the
// token, and returns it. In PostgreSQL that is one statement. A plain SELECT could not
// do it: two would read the same mark, and both write.
const (
	postgresRaise = `INSERT INTO leasehold_marks AS m (name, token) VALUES ($1, $2) ` +
		`ON CONFLICT (name) DO UPDATE SET token = greatest(m.token, excluded.token) RETURNING token`
	mysqlRaise = `INSERT INTO leasehold_marks (name, token) VALUES (?, ?) ` +
		`ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)`
	// FOR UPDATE, since a plain SELECT reads the snapshot of the transaction's first
	// read, which may be from before the row was locked.
	mysqlRaised = `SELECT token FROM leasehold_marks WHERE name = ? FOR UPDATE`
)

// share locks the mark against raising until the transaction ends, together with
// others who share it, and returns it; -1 if there is none, and so nothing is locked.
const (
	postgresShare = `SELECT coalesce((SELECT token FROM leasehold_marks WHERE name = $1 FOR SHARE), -1)`
	mysqlShare    = `SELECT COALESCE((SELECT token FROM leasehold_marks WHERE name = ? LOCK IN SHARE MODE), -1)`
)

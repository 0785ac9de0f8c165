package mysqllock

import "leasehold/lab/servers"

// The tests run on MariaDB, and on MySQL where LEASEHOLD_MYSQLD names its mysqld: see
// package servers. This is what differs in what they say to a server.

// transaction is a variable of a session's transactions: MySQL 8 renamed those that
// MariaDB 10.11 knows.
func transaction(name string) string {
	if servers.MySQLD() != "" {
		return "transaction_" + name
	}
	return "tx_" + name
}

// statementTime is a session's bound of a statement's time, of which 0 is none.
func statementTime() string {
	if servers.MySQLD() != "" {
		return "max_execution_time" // in milliseconds
	}
	return "max_statement_time"
}

// synced is a value of innodb_flush_log_at_trx_commit that syncs every commit: MariaDB has
// another one.
func synced() string {
	if servers.MySQLD() != "" {
		return "1"
	}
	return "3"
}

// oddModes are the modes of sql_mode that change most of what SQL means.
func oddModes() string {
	const both = "ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH"
	if servers.MySQLD() != "" {
		return both
	}
	return both + ",SIMULTANEOUS_ASSIGNMENT"
}

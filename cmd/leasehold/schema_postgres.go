//go:build !no_postgres

package main

import (
	"time"

	"leasehold/engine/postgres/pglock"
)

func schemaPostgres(schema, prefix string, unlogged time.Duration) (string, error) {
	return pglock.Schema(&pglock.Options{Schema: schema, Prefix: prefix, Unlogged: unlogged})
}

//go:build no_postgres

package main

import (
	"errors"
	"time"
)

func schemaPostgres(string, string, time.Duration) (string, error) {
	return "", errors.New("this program has no SQL for PostgreSQL: the build tag no_postgres left that engine out: take a program that was built without the tag")
}

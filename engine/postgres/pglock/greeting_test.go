package pglock

import "testing"

func TestWhatIsNoServerIsNamed(t *testing.T) {
	rows.WhatIsNoServerIsNamed(t, func(addr string) string { return "postgres://postgres@" + addr + "/test" }, "did not answer in time (5s, or connect_timeout): it is no PostgreSQL", "does not speak as PostgreSQL does")
}

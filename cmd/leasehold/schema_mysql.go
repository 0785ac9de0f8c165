//go:build !no_mysql

package main

import "leasehold/engine/mysql/mysqllock"

func schemaMySQL(prefix string) (string, error) {
	return mysqllock.Schema(&mysqllock.Options{Prefix: prefix})
}

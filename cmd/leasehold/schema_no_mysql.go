//go:build no_mysql

package main

import "errors"

func schemaMySQL(string) (string, error) {
	return "", errors.New("this program has no SQL for MySQL: the build tag no_mysql left that engine out: take a program that was built without the tag")
}

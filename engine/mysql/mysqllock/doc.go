// Package mysqllock keeps lines in MySQL and MariaDB.
package mysqllock

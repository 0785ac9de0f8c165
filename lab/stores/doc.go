// Package stores is tests only: packages fence and optimistic on real servers, with
// holders that are processes and are stopped. It is a module of its own, so that the
// root needs no driver. Stopping a process needs a Unix.
package stores

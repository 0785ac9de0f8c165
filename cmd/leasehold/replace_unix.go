//go:build unix

package main

import "syscall"

// runUnder becomes the command: the run above this one ends it if need be.
func (o *order) runUnder(env []string) (int, error) {
	return 0, notRunnable(o.Command[0], syscall.Exec(o.Path, o.Command, env))
}

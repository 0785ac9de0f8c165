package main

import (
	"errors"
	"os"
	"os/exec"
)

// runUnder runs the command: the run above this one ends it if need be.
func (o *order) runUnder(env []string) (int, error) {
	cmd := exec.Cmd{Path: o.Path, Args: o.Command, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, notRunnable(o.Command[0], err)
	}
	return 0, nil
}

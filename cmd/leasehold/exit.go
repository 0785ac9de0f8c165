package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"leasehold"
	"leasehold/engine"
	"leasehold/engines"
)

// Exit codes of leasehold itself. Those below 128 that sysexits.h names mean
// what it says; a command run under a lock may use them for itself, which is
// why the two a script has to tell apart can be changed.
const (
	codeFailed      = 1   // the answer is no, or cannot be written
	codeUsage       = 64  // EX_USAGE: flags, names, figures
	codeUnavailable = 69  // EX_UNAVAILABLE: the engine cannot be used or reached
	codeConflict    = 75  // EX_TEMPFAIL: not obtained
	codeLost        = 76  // EX_PROTOCOL: obtained, and lost before the command ended
	codeNotRunnable = 126 // as shells do
	codeNotFound    = 127
	codeSignal      = 128 // + its number
)

const codesHelp = `    64     wrong arguments, a wrong engine URL, or an engine that --require refuses
    69     the engine cannot be used or reached
    75     the lock was not obtained
    76     the lock was lost
    126    the command cannot be run
    127    the command was not found
    128+n  signal n ended the command, or ended leasehold while it waited`

// exitError is an error that has decided its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{codeUsage, fmt.Errorf(format, args...)}
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "ended by a signal: " + e.signal.String() }

// fail reports err in one sentence and returns the exit code it stands for.
func (a *app) fail(err error) int {
	var sig *signalError
	if !errors.As(err, &sig) && !errors.Is(err, context.Canceled) { // the sender of a signal knows
		text := strings.TrimPrefix(err.Error(), "leasehold: ")
		if a.log == nil {
			a.say("%s", text)
		}
		a.line(slog.LevelError, "failed", "error", brief(joined.Replace(text)), "exit_code", codeOf(err))
	}
	return codeOf(err)
}

// codeOf is the exit code that an error stands for.
func codeOf(err error) int {
	var sig *signalError
	var exit *exitError
	var file *fs.PathError
	switch {
	case errors.As(err, &sig):
		return codeSignal + int(sig.signal)
	case errors.Is(err, context.Canceled):
		return codeSignal + int(syscall.SIGINT)
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &file) && file.Path == os.Stdout.Name():
		return codeFailed
	case errors.Is(err, leasehold.ErrHeld):
		return codeConflict
	case errors.Is(err, leasehold.ErrLost):
		return codeLost
	case errors.Is(err, engine.ErrNoClaim):
		return codeFailed
	case errors.Is(err, engine.ErrRefused), errors.Is(err, leasehold.ErrRequire), errors.Is(err, engines.ErrURL):
		return codeUsage
	}
	return codeUnavailable
}

// notRunnable gives a command that cannot be started the code that shells do.
func notRunnable(name string, err error) error {
	code := codeNotRunnable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = codeNotFound
	}
	var of *exec.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return &exitError{code, fmt.Errorf("cannot run %q: %w", name, err)}
}

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
)

// whileRead runs f with an output whose first failed write ends the context of f. A reader
// that has gone, as head does, would end this process by SIGPIPE, and f has servers, files
// and names to remove.
func (a *app) whileRead(ctx context.Context, f func(context.Context, io.Writer) error) error {
	catch(make(chan os.Signal, 1), []os.Signal{syscall.SIGPIPE})
	ctx, end := context.WithCancel(ctx)
	defer end()
	out := &followed{answer{Writer: a.out}, end}
	switch err := f(ctx, out); {
	case out.failed == nil:
		return err
	case errors.Is(out.failed, syscall.EPIPE):
		return &signalError{syscall.SIGPIPE} // as the write would have
	}
	return &exitError{codeFailed, out.failed}
}

// followed is an output that notifies its writer when it fails.
type followed struct {
	answer
	end func()
}

func (w *followed) Write(b []byte) (int, error) {
	n, err := w.answer.Write(b)
	if err != nil {
		w.end()
	}
	return n, err
}

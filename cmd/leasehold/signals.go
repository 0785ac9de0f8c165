package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// asking are the signals that ask a process to end. Those that were ignored
// when leasehold was started (nohup) stay ignored, here and in the command.
var asking = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func catch(c chan<- os.Signal, sigs []os.Signal) {
	sigs = slices.DeleteFunc(slices.Clone(sigs), signal.Ignored)
	if len(sigs) > 0 {
		signal.Notify(c, sigs...)
	}
}

// untilAsked runs f under a context that ends at the first signal that asks to.
// If that is what f failed for, the signal is the error, which is an exit code.
func untilAsked(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	caught := make(chan os.Signal, 1)
	catch(caught, asking)
	defer signal.Stop(caught)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case sig := <-caught:
			cancel(&signalError{sig.(syscall.Signal)})
		case <-over:
		}
	}()
	err := f(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

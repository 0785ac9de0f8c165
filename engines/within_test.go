package engines

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/lab/servers"
)

// deaf is a scheme whose engine does not look at its context: it opens when go is
// closed.
func deaf(eng engine.Engine, open <-chan struct{}) Scheme {
	return Scheme{open: func(context.Context, string) (engine.Engine, error) {
		<-open
		return eng, nil
	}}
}

// closes is an engine that says when it is closed.
type closes struct {
	engine.Engine
	closed chan struct{}
}

func (c closes) Close() error {
	close(c.closed)
	return c.Engine.Close()
}

// Whatever an engine does with its context, opening it ends.
func TestOpeningIsBounded(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc, error){
		"by itself": func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			return ctx, func() {}, context.DeadlineExceeded
		},
		"by a deadline": func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, cancel, context.DeadlineExceeded
		},
		"by whoever asked": func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }, cause
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := make(chan struct{})
				eng := closes{memlock.New(), make(chan struct{})}
				ctx, cancel, why := end(t.Context())
				defer cancel()
				start := time.Now()
				got, err := deaf(eng, open).openWithin(ctx, "deaf:")
				if got != nil || !errors.Is(err, why) {
					t.Errorf("%v, %v", got, err)
				}
				bound := OpenWithin + lastWords
				if name != "by itself" {
					bound = time.Second + lastWords
				}
				if took := time.Since(start); took > bound {
					t.Errorf("it took %v", took)
				}
				close(open) // and nobody has it
				<-eng.closed
			})
		})
	}
}

// What an engine says when its time is over is said, with why it is over.
func TestOpeningSaysWhatTheEngineMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		met := errors.New("it speaks Latin")
		s := Scheme{open: func(ctx context.Context, _ string) (engine.Engine, error) {
			<-ctx.Done()
			return nil, met
		}}
		_, err := s.openWithin(t.Context(), "polite:")
		if !errors.Is(err, met) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 5s") {
			t.Error(err)
		}
	})
}

// The context of an opening ends with it, which is no failure of the engine.
func TestOpenedInTime(t *testing.T) {
	for range 100 {
		eng, err := Scheme{open: openMem}.openWithin(t.Context(), "mem:")
		if err != nil {
			t.Fatal(err)
		}
		eng.Close()
	}
}

// Something listens and never speaks: every engine's opening ends with its context.
func TestNobodySpeaks(t *testing.T) {
	for _, s := range Schemes() {
		for _, name := range s.Names {
			if name == "dir" || name == "mem" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				eng, err := Open(ctx, at(name, func(network string) string { return servers.Impostor(t, network, nil) }))
				if err == nil {
					eng.Close()
					t.Fatal("opened")
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
	}
}

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/engine"
)

// errNoAnswer: an engine that has not failed, and not answered either.
var errNoAnswer = errors.New("it has not answered yet")

// giveUp takes l, whose ctx has ended, out of its line. It reports false if l was
// answered already.
func (k *core) giveUp(ctx context.Context, ln *localLine, l *Lease) bool {
	k.mu.Lock()
	defer k.unlock()
	if l.line == nil {
		return false
	}
	ln.remove(l)
	l.err = context.Cause(ctx)
	timeUp := ctx.Err() == context.DeadlineExceeded // the context's, or that of Wait
	silent := ln.lastErr
	if cl := ln.cur; cl != nil {
		l.token = Token(cl.ticket << engine.LendBits)
		if silent == nil && timeUp && cl.joining && cl.state == engine.Unknown {
			silent = errNoAnswer
		}
	}
	switch {
	case silent != nil:
		l.err = fmt.Errorf("%w: %w", ErrUnavailable, silent)
		if cause := context.Cause(ctx); cause != errWaited {
			l.err = fmt.Errorf("%w (%w)", l.err, cause)
		}
	case timeUp:
		l.err = errWaited
	}
	switch cl := ln.cur; {
	case cl == nil || cl.users > 0 || cl.keptTill != 0:
	case ln.head == nil:
		ln.cur = nil
		k.abandon(cl)
	case cl.joining && !cl.asking:
		// It was this caller's goroutine that asked; others still wait.
		k.renewNow(cl, k.now())
	}
	return true
}

// failClaim answers everybody who waits for cl with err. The line may wait for
// another claim by now: those who came after cl was abandoned.
func (k *core) failClaim(cl *claim, err error) {
	if cl.line.cur == cl {
		cl.line.cur = nil
		k.failAll(cl.line, err)
	}
}

// failAll answers everybody in the line with err.
func (k *core) failAll(ln *localLine, err error) {
	for ln.head != nil {
		l := ln.pop()
		l.err = err
		k.answer(l)
	}
}

// explain makes an error of why l got nothing: for ErrHeld it looks who holds
// the name. Called without mu.
func (k *core) explain(ctx context.Context, l *Lease, err error) error {
	if err != errWaited && err != ErrHeld {
		return err
	}
	held := k.heldError(ctx, l)
	if cause := context.Cause(ctx); err == errWaited && cause != errWaited {
		return fmt.Errorf("%w (%w)", held, cause) // the context's own deadline
	}
	return held
}

// gaveUp makes the error of a caller that gets nothing.
func (k *core) gaveUp(op string, l *Lease, err error) error {
	err = wrap(op, l.name, err)
	if k.opts.Observer != nil {
		k.opts.Observer(Event{Kind: EventGaveUp, Name: l.name, Waited: k.waited(l), Err: err})
	}
	return err
}

func (k *core) waited(l *Lease) time.Duration {
	if l.began == 0 {
		return 0
	}
	return k.now() - l.began
}

func (k *core) heldError(ctx context.Context, l *Lease) *HeldError {
	held := &HeldError{Name: l.name, Waited: k.waited(l)}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	line, err := k.eng.Line(ctx, l.name)
	if err != nil {
		return held // that somebody holds it is known; who, is not
	}
	held.free = len(line.Claims) == 0
	for _, c := range line.Claims {
		if c.State == engine.Held {
			held.By = append(held.By, c)
		} else if l.token == 0 || c.Ticket < l.token.Ticket() {
			held.Ahead++ // not this caller's own claim, which is being left
		}
	}
	return held
}

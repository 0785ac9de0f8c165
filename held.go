package leasehold

import (
	"context"
	"fmt"
	"time"

	"leasehold/engine"
)

// giveUp takes l out of its line. It reports false if l was answered already.
func (k *core) giveUp(ln *localLine, l *Lease, cause error) bool {
	k.mu.Lock()
	defer k.unlock()
	if l.line == nil {
		return false
	}
	ln.remove(l)
	l.err = cause
	if ln.cur != nil {
		l.token = Token(ln.cur.ticket << engine.LendBits)
	}
	if ln.lastErr != nil {
		l.err = fmt.Errorf("%w: %w", ErrUnavailable, ln.lastErr)
		if cause != errWaited {
			l.err = fmt.Errorf("%w (%w)", l.err, cause)
		}
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
		l.ready <- struct{}{} // capacity 1, sent once
	}
}

// explain makes an error of why l got nothing: for ErrHeld it looks who holds
// the name. Called without mu.
func (k *core) explain(ctx context.Context, op string, l *Lease, err error) error {
	waited := time.Duration(0)
	if l.began > 0 {
		waited = k.now() - l.began
	}
	if err == errWaited || err == ErrHeld {
		err = k.heldError(ctx, l, waited)
	}
	err = wrap(op, l.name, err)
	if k.opts.Observer != nil {
		k.opts.Observer(Event{Kind: EventGaveUp, Name: l.name, Waited: waited, Err: err})
	}
	return err
}

func (k *core) heldError(ctx context.Context, l *Lease, waited time.Duration) error {
	held := &HeldError{Name: l.name, Waited: waited}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	line, err := k.eng.Line(ctx, l.name)
	if err != nil {
		return held // that somebody holds it is known; who, is not
	}
	for _, c := range line.Claims {
		if c.State == engine.Held {
			held.By = append(held.By, c)
		} else if l.token == 0 || c.Ticket < l.token.Ticket() {
			held.Ahead++ // not this caller's own claim, which is being left
		}
	}
	return held
}

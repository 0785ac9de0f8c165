package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/view"
)

// noticeAfter is how long something has to last before a person is told: what
// is over sooner is nothing to read.
const noticeAfter = time.Second

// engineNotice says, once each, that the engine fails and that it answers
// again, while a name is waited for or held.
type engineNotice struct {
	*app
	name string

	mu    sync.Mutex
	timer *time.Timer // while the engine fails and nothing was said; nil again when it was
	said  bool        // that it fails
}

func (n *engineNotice) observe(e leasehold.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch e.Kind {
	case leasehold.EventEngineDown:
		if n.timer == nil && !n.said {
			n.timer = time.AfterFunc(noticeAfter, func() { n.fails(e.Err) })
		}
	case leasehold.EventEngineUp:
		n.stop()
		if n.said {
			n.said = false
			n.say("%s: the engine answers again, after %v", quoteName(n.name), e.Held.Round(100*time.Millisecond))
		}
	}
}

func (n *engineNotice) fails(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer == nil {
		return // it answered while this was about to begin, or all is over
	}
	n.timer, n.said = nil, true
	n.say("%s: the engine fails, leasehold tries again and again: %v", quoteName(n.name), err)
}

// close says nothing more of an engine that fails: how it ended will be said.
func (n *engineNotice) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop()
}

func (n *engineNotice) stop() {
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// lock obtains the ordered name. A person who waits at a terminal for longer is told who
// holds it, and so is a log.
func (a *app) lock(ctx context.Context, o *order, locks *leasehold.Client) (*leasehold.Lease, error) {
	screen, ok := a.err.(*os.File)
	if o.Once || a.log == nil && (!ok || !term.IsTerminal(int(screen.Fd()))) {
		return o.obtain(ctx, locks)
	}
	about, cancel := context.WithCancel(ctx)
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		select {
		case <-time.After(noticeAfter):
			a.sayWaiting(about, o.Name, locks)
		case <-about.Done():
		}
	}()
	lease, err := o.obtain(ctx, locks)
	cancel()
	<-notified
	return lease, err
}

// sayWaiting says who holds and how many wait ahead of this process, as far as
// one look at the queue can tell.
func (a *app) sayWaiting(ctx context.Context, name string, locks *leasehold.Client) {
	l, err := locks.Queue(ctx, name)
	if err != nil || len(l.Claims) == 0 {
		return // an engine that fails is told of elsewhere
	}
	first, me := l.Claims[0], a.place(l)
	if me == 0 {
		return // not waiting any more
	}
	ahead := 0
	for _, c := range l.Claims[:max(0, me)] {
		if c.State == engine.Waiting {
			ahead++
		}
	}
	if a.log != nil {
		a.line(slog.LevelInfo, "waiting behind", "name", name, "holder", first.Owner.String(), "ticket", fmt.Sprint(first.Ticket), "mode", view.ModeText(first), "ahead", ahead)
		return
	}
	how := "held by"
	if first.State != engine.Held {
		how = "next is"
	}
	text := fmt.Sprintf("waiting for %s: %s %s (%s, ticket %d)", quoteName(name), how, first.Owner.String(), view.ModeText(first), first.Ticket)
	if me > 0 {
		text += fmt.Sprintf(", %d wait ahead", ahead)
	}
	a.say("%s", text)
}

// place is the index of this process's claim, by what owners say of
// themselves; -1 if it is not there.
func (a *app) place(l engine.Queue) int {
	host, _ := os.Hostname()
	return slices.IndexFunc(l.Claims, func(c engine.Claim) bool { return c.Owner.PID == os.Getpid() && c.Owner.Host == host })
}

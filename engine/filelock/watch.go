package filelock

import (
	"context"
	"net"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// maxMail bounds what is kept for a Watch that does not come. Beyond it the
// next one begins with "look at everything".
const maxMail = 1024

// Watch implements [engine.Engine].
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	var mail []engine.Claim
	for {
		e.mu.Lock()
		mail, e.mail = e.mail, mail[:0]
		all := e.all
		e.all = false
		e.mu.Unlock()
		if all {
			changed(engine.Claim{})
		}
		for _, c := range mail {
			changed(c)
		}
		if all || len(mail) > 0 {
			continue
		}
		select {
		case <-e.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.ctx.Done():
			return engine.ErrClosed
		}
	}
}

// post puts a note into this engine's own mail.
func (e *Engine) post(c engine.Claim) {
	e.mu.Lock()
	if len(e.mail) < maxMail {
		e.mail = append(e.mail, c)
	} else {
		e.all = true
	}
	e.mu.Unlock()
	e.ring()
}

// postAll has the Watch look at everything.
func (e *Engine) postAll() {
	e.mu.Lock()
	e.all = true
	e.mu.Unlock()
	e.ring()
}

func (e *Engine) ring() {
	select {
	case e.wake <- struct{}{}:
	default: // awake already
	}
}

// receive reads the notes of other clients until this life ends.
func (e *Engine) receive(l *life) {
	l.bell.receive(func(b []byte) {
		switch c, ok := parseNote(b); {
		case !ok:
		case c.State == engine.Unknown:
			e.lookSoon(c.Name)
		default:
			e.post(c)
		}
	}, func() {
		if l.overflow() {
			e.postAll()
		}
	})
}

// monitor is the wait for another client's end. Beyond this engine's share the
// ends of others are found by renewals, within about a second. Under Engine.mu.
type monitor struct {
	names   map[string]time.Duration // where it matters, and until when
	conn    net.Conn
	dropped bool
}

// watchFor has this client hear of the ends of others that its claims in a
// line wait for. The change that found the claims waiting found those clients
// alive, or did not ask; either way, one that has ended since refuses the
// connection, which is the same as its end.
func (e *Engine) watchFor(name string, arms []arm) {
	if !wakes || len(arms) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return
	}
	for _, a := range arms {
		m := e.monitors[a.client]
		if m == nil {
			if len(e.monitors) >= e.most.monitors && !e.dropMonitor() {
				continue
			}
			m = &monitor{names: map[string]time.Duration{}}
			e.monitors[a.client] = m
			e.tasks.Go(func() { e.listenFor(a.client, m) })
		}
		if len(m.names) >= maxMail {
			e.forget(m)
		}
		m.names[name] = max(m.names[name], a.until)
	}
}

// forget drops names that no claim can be waiting in any more.
func (e *Engine) forget(m *monitor) {
	now := e.clock()
	for name, until := range m.names {
		if until <= now {
			delete(m.names, name)
		}
	}
}

// dropMonitor makes room by ending a connection nobody needs. Under e.mu.
func (e *Engine) dropMonitor() bool {
	for client, m := range e.monitors {
		if e.forget(m); len(m.names) == 0 && m.conn != nil {
			m.dropped = true
			m.conn.Close()
			delete(e.monitors, client)
			return true
		}
	}
	return false
}

// listenFor waits for a client's end and then looks at the lines it was ahead
// in.
func (e *Engine) listenFor(client string, m *monitor) {
	conn, full, err := dialLife(e.clients, client)
	if err == nil {
		e.mu.Lock()
		m.conn = conn
		closed := e.ctx.Err() != nil
		e.mu.Unlock()
		if !closed {
			var one [1]byte
			_, _ = conn.Read(one[:]) // nothing is ever sent: this is the end
		}
		conn.Close()
	}
	if full && err != nil {
		e.mu.Lock()
		e.endMonitor(client, m)
		e.mu.Unlock()
		return
	}
	// The kernel ends a process's connections and its lock one after the
	// other, in no order one could rely on; and somebody else may have the
	// file with the lock open (LifeFile). Renewals of claims that still wait
	// keep the monitor's names from running out.
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		dead := e.isDead(client)
		e.mu.Lock()
		e.forget(m)
		if m.dropped || e.ctx.Err() != nil || dead || len(m.names) == 0 {
			names := e.endMonitor(client, m)
			e.mu.Unlock()
			if dead {
				for name := range names {
					_ = e.look(e.ctx, name) // an error here is an error of the next Renew too
				}
			}
			return
		}
		e.mu.Unlock()
		sleep(e.ctx, wait)
	}
}

// endMonitor forgets a monitor and returns its names. Under e.mu.
func (e *Engine) endMonitor(client string, m *monitor) map[string]time.Duration {
	if e.monitors[client] == m {
		delete(e.monitors, client)
	}
	return m.names
}

// look has a line rid of the dead, and everybody who holds in it told so: the
// dead may have made them hold and died before saying it.
func (e *Engine) look(ctx context.Context, name string) error {
	_, err := e.update(ctx, name, change{look: true, tell: true,
		run: func(now time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error) {
			return nil, l.Depart(now, name, func(string) bool { return false }), nil
		}})
	return err
}

// maxLooks bounds the names that are looked at at the same time because others
// asked. Who asked in vain is found by renewals.
const maxLooks = 256

// lookSoon is look for callers that must not wait: once per name at a time.
func (e *Engine) lookSoon(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil || e.looking[name] || len(e.looking) >= maxLooks {
		return
	}
	e.looking[name] = true
	e.tasks.Go(func() {
		e.mu.Lock()
		delete(e.looking, name) // before looking: a later request is about later changes
		e.mu.Unlock()
		_, _ = e.update(e.ctx, name, change{look: true,
			run: func(now time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error) {
				return nil, l.Depart(now, name, func(string) bool { return false }), nil
			}})
	})
}

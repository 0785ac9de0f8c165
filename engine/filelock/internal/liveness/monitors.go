package liveness

import (
	"net"
	"time"
)

// monitor is the wait for another client's end. Beyond this engine's share the
// ends of others are found by renewals: within about a second, or, of more than 16
// clients that hold one name, a second for each 16. Under Liveness.mu.
type monitor struct {
	names   map[string]time.Duration // where it matters, and until when
	conn    net.Conn
	dropped bool
}

// Await has this client look at a line when another ends that its claim there
// waits for. One that has ended by now refuses the connection, which is the
// same as its end.
func (v *Liveness) Await(client, name string, until time.Duration) {
	if !Wakes {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() != nil {
		return
	}
	m := v.monitors[client]
	if m == nil {
		if len(v.monitors) >= v.most.Monitors && !v.dropMonitor() {
			return
		}
		m = &monitor{names: map[string]time.Duration{}}
		v.monitors[client] = m
		v.tasks.Go(func() { v.listenFor(client, m) })
	}
	if len(m.names) >= maxNames {
		v.forget(m)
	}
	m.names[name] = max(m.names[name], until)
}

// maxNames is how many names a monitor has when it looks which of them still
// matter.
const maxNames = 1024

// forget drops names that no claim can be waiting in any more.
func (v *Liveness) forget(m *monitor) {
	now := v.clock()
	for name, until := range m.names {
		if until <= now {
			delete(m.names, name)
		}
	}
}

// dropMonitor makes room by ending a connection nobody needs. Under v.mu.
func (v *Liveness) dropMonitor() bool {
	for client, m := range v.monitors {
		if v.forget(m); len(m.names) == 0 && m.conn != nil {
			m.dropped = true
			m.conn.Close()
			delete(v.monitors, client)
			return true
		}
	}
	return false
}

// listenFor waits for a client's end and then looks at the lines it was ahead
// in.
func (v *Liveness) listenFor(client string, m *monitor) {
	conn, full, err := dialLife(v.clients, client)
	if err == nil {
		v.mu.Lock()
		m.conn = conn
		closed := v.ctx.Err() != nil
		v.mu.Unlock()
		if !closed {
			var one [1]byte
			_, _ = conn.Read(one[:]) // nothing is ever sent: this is the end
		}
		conn.Close()
	}
	if full && err != nil {
		v.mu.Lock()
		v.endMonitor(client, m)
		v.mu.Unlock()
		return
	}
	// The kernel ends a process's connections and its lock one after the
	// other, in no order one could rely on; and somebody else may have the
	// file with the lock open (LifeFile). Renewals of claims that still wait
	// keep the monitor's names from running out.
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		dead := v.Dead(client)
		v.mu.Lock()
		v.forget(m)
		if m.dropped || v.ctx.Err() != nil || dead || len(m.names) == 0 {
			names := v.endMonitor(client, m)
			v.mu.Unlock()
			if dead {
				for name := range names {
					v.ended(name)
				}
			}
			return
		}
		v.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-v.ctx.Done():
		}
	}
}

// endMonitor forgets a monitor and returns its names. Under v.mu.
func (v *Liveness) endMonitor(client string, m *monitor) map[string]time.Duration {
	if v.monitors[client] == m {
		delete(v.monitors, client)
	}
	return m.names
}

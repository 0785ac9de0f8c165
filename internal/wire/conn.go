package wire

import (
	"io"
	"net"
	"time"
)

// LoseAnswer cuts the connection when the server sends something. The request that has
// just been seen reaches the server.
func (c *Conn) LoseAnswer() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.lose = true
}

// HoldAnswers lets nothing arrive that the server sends on this connection until Release.
func (c *Conn) HoldAnswers() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.held = true
}

// reset is end by a fault.
func (c *Conn) reset() {
	c.once.Do(func() {
		c.close(func() { c.p.effects.Cut++ })
	})
}

// end closes both connections, the client's with a reset.
func (c *Conn) end() { c.once.Do(func() { c.close(func() {}) }) }

// close ends the server's connection first, with the write to it that is under way. So the
// client knows of the end only when nothing of it can reach the server any more: what it asks
// again, it asks after that. Otherwise a request could arrive after its own repetition, and
// after all that the client did since.
func (c *Conn) close(also func()) {
	c.server.Close()
	c.sending.Lock() // which that write has until it ends
	abort(c.client)
	c.sending.Unlock()
	c.p.set(func() { // wakes what waits in admit
		delete(c.p.conns, c)
		also()
	})
}

// abort closes with a reset rather than an orderly end.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// chunk is bytes that came in at once.
type chunk struct {
	data []byte
	at   time.Time
}

// copy moves one direction. Reading and writing are apart, so that a delay
// adds to latency without stopping what follows.
func (c *Conn) copy(to, from net.Conn, way direction) {
	queue := make(chan chunk, 256)
	see := func([]byte) {}
	if way == request && c.p.requests != nil {
		see = c.p.requests(c)
	}
	c.p.running.Go(func() {
		defer close(queue)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if n > 0 {
				see(b[:n])
				queue <- chunk{b[:n], time.Now()}
			}
			if err != nil {
				if err != io.EOF {
					c.end()
				}
				return
			}
		}
	})
	defer func() {
		c.end() // an end in one direction ends both: no client here half-closes
		for range queue {
			// let the reader finish
		}
	}()
	for piece := range queue {
		pass, alive := c.admit(piece, way)
		if len(pass) > 0 && !c.send(to, pass, way) || !alive {
			return
		}
	}
}

// send writes bytes that may pass, and reports whether it could.
func (c *Conn) send(to net.Conn, pass []byte, way direction) bool {
	if way == request {
		c.sending.Lock()
		defer c.sending.Unlock()
	}
	_, err := to.Write(pass)
	return err == nil
}

// admit waits as the settings say and returns what may pass now, and whether
// the connection lives on.
func (c *Conn) admit(piece chunk, way direction) (pass []byte, alive bool) {
	p, late := c.p, false
	for {
		p.mu.Lock()
		if way == reply && p.holdNext > 0 && !c.held {
			p.holdNext--
			c.held = true
		}
		wait := time.Until(piece.at.Add(p.delay))
		changed := p.changed
		_, open := p.conns[c]
		switch {
		case !open || p.closed:
			p.mu.Unlock()
			return nil, false
		case p.stop[way], c.held && way == reply:
			wait = time.Hour
		case p.delay == 0 || wait <= 0:
			defer p.mu.Unlock()
			return c.passLocked(piece.data, way)
		}
		if !late {
			late = true
			p.effects.Late++
		}
		p.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}

// passLocked is admit for bytes that need not wait.
func (c *Conn) passLocked(data []byte, way direction) (pass []byte, alive bool) {
	p := c.p
	if way == reply && (c.lose || p.loseNext > 0) {
		if !c.lose {
			p.loseNext--
		}
		p.effects.Lost++
		return nil, false
	}
	if p.dropReply {
		c.lost = true
		if way == reply {
			p.effects.Lost++
			return nil, true
		}
	}
	if p.cut[way] < 0 {
		return data, true
	}
	if len(data) <= p.cut[way] {
		p.cut[way] -= len(data)
		return data, true
	}
	n := p.cut[way]
	p.cut[way] = -1
	if way == reply {
		p.effects.Lost++
	}
	return data[:n], false
}

package demo

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-zookeeper/zk"
)

// wired is the server behind a wire.
func (s *stage) wired() (*wire, string) {
	where, err := parseZooKeeper(s.on.server)
	if err != nil {
		s.fail(err)
		return nil, ""
	}
	w, err := newWire(where)
	if err != nil {
		s.fail(err)
		return nil, ""
	}
	s.end = append(s.end, w.close)
	return w, w.through()
}

// herdSize is how many processes want the lock, one after the other.
const herdSize = 21

// fewRequests is what all releases may cost together: less than a third of what the herd costs,
// also where some of it come late, and three times what ours costs.
const fewRequests = 6 * herdSize

// herd: all of them wait for the first, and each unlocks when it has held. What counts
// is how many requests each release costs.
func herd(s *stage) finding {
	w, url := s.wired()
	if s.err != nil {
		return finding{}
	}
	var all []*actor
	for _, name := range letters(herdSize) {
		all = append(all, s.spawn(name))
	}
	for _, a := range all {
		a.begin(order{Server: url})
	}
	first := all[0]
	if s.err != nil {
		return finding{}
	}
	first.must(first.lock(item, patience))
	for _, a := range all[1:] {
		a.order("lock", item, patience)
		s.line.states[a.name] = waits
	}
	s.settle(w)
	first.say(holds, "the other %d wait", herdSize-1)
	began := w.count()
	first.unlock(item)
	for range herdSize - 1 {
		a, said := s.next(patience)
		if s.err != nil || a == nil || said != yes {
			s.fail(fmt.Errorf("a waiter did not get the lock: %q", said))
			return finding{}
		}
		s.line.states[a.name] = idle
		if err := a.do("unlock", item, patience); err != nil {
			s.fail(err)
		}
	}
	s.settle(w)
	requests := w.count() - began
	first.say(idle, "all have held: %d requests for %d releases", requests, herdSize)
	return finding{requests > fewRequests, fmt.Sprintf("a release cost %d requests with up to %d waiters", (requests+herdSize/2)/herdSize, herdSize-1)}
}

// settle waits until no request has come for a while.
func (s *stage) settle(w *wire) {
	for before := -1; s.err == nil && before != w.count(); {
		before = w.count()
		s.wait(200 * time.Millisecond)
	}
}

// numbered is a node of a queue, by hand or of ours.
var numbered = regexp.MustCompile(`[0-9]{10}$`)

// inLine looks whether so many stand in one queue.
func (s *stage) inLine(want int) func() error {
	where, err := parseZooKeeper(s.on.server)
	if err != nil {
		return func() error { return err }
	}
	conn, err := dialZooKeeper(s.ctx, where)
	if err != nil {
		return func() error { return err }
	}
	s.end = append(s.end, conn.Close)
	return func() error {
		if n, err := longest(conn, "/"+where.Path); err != nil || n < want {
			return errors.Join(err, fmt.Errorf("%d stand in line", n))
		}
		return nil
	}
}

// longest is how many nodes the longest queue has at or below a path.
func longest(conn *zk.Conn, path string) (int, error) {
	children, _, err := conn.Children(path)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, child := range children {
		if numbered.MatchString(child) {
			n++
		}
	}
	for _, child := range children {
		below, err := longest(conn, path+"/"+child)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return 0, err
		}
		n = max(n, below)
	}
	return n, nil
}

// predecessorGoes: the connection of C is slow after its list. Meanwhile B, which C
// is about to watch, gives up. A holds all the time.
func predecessorGoes(s *stage) finding {
	w, url := s.wired()
	a, b := s.actor("A", 0), s.actor("B", 0)
	c := s.start("C", order{Server: url})
	if s.err != nil {
		return finding{}
	}
	a.must(a.lock(item, patience))
	b.ask(item, 5*time.Second) // until then C reads the list
	s.until("process B stands behind A", s.inLine(2))
	w.slowDown()
	c.ask(item, 3*patience) // by hand it has patience to hold wrongly, and time is left after that
	select {
	case <-w.listed:
		c.say(waits, "C has read the list; its connection is slow")
	case <-time.After(patience):
		s.fail(errors.New("process C reads no list"))
	case <-s.ctx.Done():
		s.fail(s.ctx.Err())
	}
	if b.got(patience) {
		s.fail(errors.New("process B holds beside A"))
	}
	s.wait(200 * time.Millisecond) // its node is gone
	close(w.released)
	if c.got(s.wrongly()) && a.believes(item) {
		return finding{true, "C found its predecessor gone, and returned from lock() while A held"}
	}
	a.unlock(item)
	c.must(c.got(patience))
	c.unlock(item)
	return finding{seen: "C read the list again, waited for A, and held after it"}
}

package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// A client's life is the kernel lock on its file in clients/. It is taken
// before the file gets its name and given up by the kernel when the process
// ends, however it does. So a file whose lock is free, or that is not there,
// belongs to nobody. Names are random, and no client takes another's.

// life is what others know of this client.
type life struct {
	file file // its lock is the life
	bell *bell
}

func (l *life) end() {
	l.bell.close()
	l.file.close()
}

// beginLife makes this client known to others. A sweeper may take the file of
// one that is just being born for a dead one's; then it is born again.
func (e *Engine) beginLife() (*life, error) {
	for try := 0; ; try++ {
		e.client = newClient()
		l, err := e.tryLife()
		if err == nil || try == 100 || !errors.Is(err, errUnborn) && !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
	}
}

var errUnborn = errors.New("filelock: a sweeper has this client's new file")

// tryLife takes the kernel lock that is this client's life, on a file that
// gets its name only afterwards: a file with a client's name and a free lock
// is a dead client's for certain. The sockets come last, for the same reason:
// sockets without a file are a dead client's too.
func (e *Engine) tryLife() (_ *life, err error) {
	tmp := bornPrefix + e.client
	l := &life{}
	if l.file, err = e.clients.create(tmp); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.clients.remove(tmp)
			e.removeClient(e.client)
			l.file.close()
		}
	}()
	if err := l.file.writeAt([]byte{0}, 0); err != nil {
		return nil, err
	}
	if ok, err := l.file.tryLock(); err != nil || !ok {
		return nil, cmpErr(err, errUnborn)
	}
	if bornPrefix != "" {
		if err := e.clients.move(tmp, e.client); err != nil {
			return nil, err
		}
	}
	l.bell, err = newBell(e.clients, e.client)
	return l, err
}

// listen runs the goroutines that a life needs.
func (e *Engine) listen(l *life) {
	if wakes {
		e.tasks.Go(func() { e.receive(l) })
		e.tasks.Go(func() { l.bell.accept(e.most.listeners) })
	}
}

// endLife: the file first, and from then on this client is gone for everybody.
// Then the sockets, which makes those who listen look.
func (e *Engine) endLife() {
	e.living.Lock()
	defer e.living.Unlock()
	e.removeClient(e.client)
	e.living.end()
}

func (e *Engine) removeClient(client string) {
	for _, suffix := range [...]string{notesSuffix, lifeSuffix} {
		e.clients.remove(client + suffix)
	}
	e.clients.remove(client)
}

// stayAlive looks, if nobody has for linkedTime, whether others find this
// client's file, and makes a new life if they do not. Without one this client
// is dead for everybody who does not have the old file open, and each of its
// claims ends as soon as somebody looks.
func (e *Engine) stayAlive(now time.Duration) {
	e.living.Lock()
	defer e.living.Unlock()
	if now-e.living.looked < linkedTime {
		return
	}
	e.living.looked = now
	if linked, err := e.living.file.linked(); err == nil && !linked { // else it is, for all one knows
		e.revive()
	}
}

// isAlive says why there is no life, and could not be made a new one.
func (e *Engine) isAlive() error {
	e.living.Lock()
	defer e.living.Unlock()
	if e.living.lost != nil {
		e.revive()
	}
	return e.living.lost
}

// revive makes a new life under the same name. Some may have looked already:
// what they removed from lines is gone, what they did not is not. The caller
// has e.living.
func (e *Engine) revive() {
	e.removeClient(e.client) // sockets may be left, whose addresses a new life needs
	l, err := e.tryLife()
	if err != nil {
		e.living.lost = fmt.Errorf("the file by which others know this client was removed, and a new one cannot be made: %w", err)
		return
	}
	e.living.end()
	e.living.life, e.living.lost = l, nil
	e.listen(l)
	e.postAll() // what was sent to the old sockets is lost
}

// isDead reports whether a client is certainly gone. What cannot be found out
// counts as alive: its claims then end by their TTL.
func (e *Engine) isDead(client string) bool {
	if client == e.client {
		return false
	}
	if !validClient(client) {
		return true
	}
	e.peers.Lock()
	defer e.peers.Unlock()
	for {
		p, cached, err := e.peer(client)
		if err != nil {
			return errors.Is(err, fs.ErrNotExist)
		}
		free, err := p.life.tryShared()
		if err != nil || !free {
			return false
		}
		p.life.unlock()
		e.dropPeer(client)
		if !cached {
			return true
		}
		// It may have had to make a new file since this one was opened.
	}
}

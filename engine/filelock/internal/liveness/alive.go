package liveness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"leasehold/engine/filelock/internal/disk"
)

// A client's life is the kernel lock on its file in clients/. It is taken
// before the file gets its name and given up by the kernel when the process
// ends, however it does. So a file whose lock is free, or that is not there,
// belongs to nobody. Names are random, and no client takes another's.

// life is what others know of this client.
type life struct {
	file     disk.File // its lock is the life
	notifier *notifier
	ended    bool
}

func (l *life) end() {
	if l == nil || l.ended {
		return
	}
	l.ended = true
	l.notifier.close()
	l.file.Close()
}

// beginLife makes this client known to others. A sweeper may take the file of
// one that is just being born for a dead one's; then it is born again.
func (v *Liveness) beginLife() (*life, error) {
	for try := 0; ; try++ {
		l, err := v.tryLife()
		if err == nil || try == 100 || !errors.Is(err, errUnborn) && !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
	}
}

var errUnborn = errors.New("filelock: a sweeper has this client's new file")

// unborn is in front of the name of a client's file until it is locked.
const unborn = "new."

// tryLife takes the kernel lock that is this client's life, on a file that
// gets its name only afterwards: a file with a client's name and a free lock
// is a dead client's for certain. The sockets come last, for the same reason:
// sockets without a file are a dead client's too.
func (v *Liveness) tryLife() (_ *life, err error) {
	tmp := unborn + v.client
	if !disk.MovesOpenFiles {
		tmp = v.client
	}
	l := &life{}
	if l.file, err = v.clients.Create(tmp); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.file.Close() // first: Windows removes no open file
			v.clients.Remove(tmp)
			v.removeClient(v.client)
		}
	}()
	if err := l.file.WriteAt([]byte{0}, 0); err != nil {
		return nil, err
	}
	if ok, err := l.file.TryLock(); err != nil || !ok {
		return nil, cmp.Or(err, errUnborn)
	}
	if disk.MovesOpenFiles {
		if err := v.clients.Move(tmp, v.client); err != nil {
			return nil, err
		}
	}
	l.notifier, err = newNotifier(v.clients, v.client)
	return l, err
}

// listen runs the goroutines that a life needs.
func (v *Liveness) listen(l *life) {
	if Wakes {
		v.tasks.Go(func() { v.receive(l) })
		v.tasks.Go(func() { l.notifier.accept(v.most.Listeners) })
	}
}

// endLife: the file first, and from then on this client is gone for everybody.
// Then the sockets, which makes those who listen look.
func (v *Liveness) endLife() {
	v.living.Lock()
	defer v.living.Unlock()
	if !disk.MovesOpenFiles {
		v.living.end() // nor is an open file removed; nobody makes another one of this name
		v.removeClient(v.client)
		return
	}
	v.removeClient(v.client)
	if v.living.life != nil {
		v.living.file.Unlock() // a descriptor that LifeFile gave away would keep the life going
	}
	v.living.end()
}

// Die ends this client as the kernel does with its process: everything is
// closed and nothing removed. It is for tests that have no process to kill;
// Close of one that died ends its goroutines.
func (v *Liveness) Die() {
	v.living.Lock()
	defer v.living.Unlock()
	v.living.end()
}

func (v *Liveness) removeClient(client string) {
	for _, suffix := range [...]string{notificationsSuffix, lifeSuffix} {
		v.clients.Remove(client + suffix)
	}
	v.clients.Remove(client)
}

// LifeFile is one more descriptor of the file whose lock is this client's life,
// for the caller to close.
func (v *Liveness) LifeFile() (*os.File, error) {
	v.living.Lock()
	defer v.living.Unlock()
	if v.ctx.Err() != nil {
		return nil, os.ErrClosed
	}
	if v.living.life == nil {
		return nil, v.living.err
	}
	return v.living.file.Dup("life of " + v.client)
}

// linkedTime is how often a client looks whether others find its file: in less
// than any time between two of its renewals.
const linkedTime = 100 * time.Millisecond

// StayAlive looks, if nobody has for linkedTime, whether others find this
// client's file, and makes a new incarnation if they do not. Without one this client
// is dead for everybody who does not have the old file open, and each of its
// claims ends as soon as somebody looks.
func (v *Liveness) StayAlive(now time.Duration) {
	v.living.Lock()
	defer v.living.Unlock()
	if v.living.life == nil || now-v.living.looked < linkedTime {
		return
	}
	v.living.looked = now
	linked, err := v.living.file.IsAt(v.clients, v.client)
	if err == nil && !linked || v.clients.IsReplaced(v.path) { // else it is, for all one knows
		v.revive()
	}
}

// IsAlive says why there is no life, and could not be made a new one.
func (v *Liveness) IsAlive() error {
	v.living.Lock()
	defer v.living.Unlock()
	if v.living.err != nil {
		v.revive()
	}
	return v.living.err
}

// revive makes a new incarnation under the same name. Some may have looked already:
// what they removed from lines is gone, what they did not is not. The caller
// has v.living.
func (v *Liveness) revive() {
	if v.clients.IsReplaced(v.path) {
		v.living.err = disk.ErrMoved
		return
	}
	v.removeClient(v.client) // sockets may be left, whose addresses a new incarnation needs
	l, err := v.tryLife()
	if err != nil {
		if v.living.life == nil {
			v.living.err = fmt.Errorf("%w: %w", ErrUnborn, err)
		} else {
			v.living.err = fmt.Errorf("the file by which others know this client was removed, and a new one cannot be made: %w", err)
		}
		return
	}
	v.living.end()
	v.living.life, v.living.err = l, nil
	v.listen(l)
	v.lost() // what was sent to the old sockets is lost
}

// Dead reports whether a client is certainly gone. What cannot be found out
// counts as alive: its claims then end by their TTL.
func (v *Liveness) Dead(client string) bool {
	if client == v.client {
		return false
	}
	if !validClient(client) {
		return true
	}
	v.peers.Lock()
	defer v.peers.Unlock()
	for {
		p, cached, err := v.peer(client)
		if err != nil {
			return errors.Is(err, fs.ErrNotExist)
		}
		free, err := p.life.TryShared()
		if err != nil || !free {
			return false
		}
		p.life.Unlock()
		v.dropPeer(client)
		if !cached {
			return true
		}
		// It may have had to make a new file since this one was opened.
	}
}

// Sweep removes what dead clients have left, the file last: as long as
// it is there somebody will come for the rest.
func (v *Liveness) Sweep(ctx context.Context) error {
	names, err := v.clients.List()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		client, _, _ := strings.Cut(strings.TrimPrefix(name, unborn), ".")
		if !validClient(client) || seen[client] || client == v.client {
			continue
		}
		seen[client] = true
		if strings.HasPrefix(name, unborn) {
			v.removeUnborn(name)
		} else if v.Dead(client) {
			v.removeClient(client)
		}
	}
	return nil
}

// removeUnborn removes the file of a client that died before it had a name. If
// it is only about to take its lock, it finds its file missing and fails; a
// lock is asked for within microseconds of the file.
func (v *Liveness) removeUnborn(name string) {
	f, err := v.clients.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	if free, err := f.TryShared(); err == nil && free {
		v.clients.Remove(name)
	}
}

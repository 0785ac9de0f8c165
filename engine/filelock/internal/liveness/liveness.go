package liveness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
)

// Liveness is the clients of a directory as one of them sees and tells them.
type Liveness struct {
	client  string
	clock   func() time.Duration
	path    string // of the directory, to find it replaced
	clients disk.Dir
	most    Most

	// See Listen.
	got   func(engine.Claim)
	lost  func()
	ended func(name string)

	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup // goroutines

	living struct {
		sync.Mutex
		*life
		looked time.Duration // when it was certain that others find its file
		err    error         // they do not, and there is no new one
	}

	mu       sync.Mutex
	monitors map[string]*monitor

	peers struct {
		sync.Mutex
		m   map[string]*peer
		buf []byte
	}
}

// ErrUnborn: this client has no life yet, and so no claim either.
var ErrUnborn = errors.New("this client has no file by which others would know it")

// Most is how much is kept open of others: two descriptors each. Beyond it
// things are opened more often, or not heard of.
type Most struct {
	Peers     int // clients that were told something
	Monitors  int // clients whose end is listened for
	Listeners int // clients that listen for the end of this one
}

// New makes this client known in a directory that stays the caller's, and that
// is at path. It is heard of by others from then on, and hears of them with
// Listen. Where the disk is full it is unborn, and can do all that needs no claim
// of its own; IsAlive tries again.
func New(path string, clients disk.Dir, client string, clock func() time.Duration, most Most) (*Liveness, error) {
	v := &Liveness{client: client, clock: clock, path: path, clients: clients, most: most, monitors: map[string]*monitor{}}
	v.peers.m = map[string]*peer{}
	v.ctx, v.stop = context.WithCancel(context.Background())
	var err error
	v.living.life, err = v.beginLife()
	switch {
	case disk.IsFull(err):
		v.living.err = fmt.Errorf("%w: %w", ErrUnborn, err)
	case err != nil:
		return nil, err
	}
	return v, nil
}

// Listen begins to hear what others say, and has these called: got with a notification,
// lost when notifications may have been lost, and ended with a line in which somebody
// has ended whom a claim waits for (see Await). They are called from goroutines
// of v. It comes once, before anything else.
func (v *Liveness) Listen(got func(engine.Claim), lost func(), ended func(name string)) {
	v.got, v.lost, v.ended = got, lost, ended
	if v.living.life != nil {
		v.listen(v.living.life)
	}
}

// Close ends this client: its claims are free when it returns, in any case.
func (v *Liveness) Close() {
	v.mu.Lock()
	v.stop()
	for _, m := range v.monitors {
		if m.conn != nil {
			m.conn.Close()
		}
	}
	v.mu.Unlock()
	v.endLife()
	v.tasks.Wait()
	v.Shed()
}

// Shed closes what is kept open of others.
func (v *Liveness) Shed() {
	v.peers.Lock()
	defer v.peers.Unlock()
	for client := range v.peers.m {
		v.dropPeer(client)
	}
}

// receive reads the notifications of other clients until this life ends.
func (v *Liveness) receive(l *life) {
	l.notifier.receive(func(b []byte) {
		if c, ok := parseNotification(b); ok {
			v.got(c)
		}
	}, func() {
		if l.overflow() {
			v.lost()
		}
	})
}

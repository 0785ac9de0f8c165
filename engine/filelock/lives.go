package filelock

import (
	"context"
	"sync"
	"time"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
)

// lives is who is alive among the clients of a directory, this one included, and
// the way notes take between them.
type lives struct {
	client  string
	clock   func() time.Duration
	path    string // of the directory, for people and to find it replaced
	clients disk.Dir
	most    share

	// What is done with what others say. Called from goroutines of lives.
	got   func(engine.Claim) // a note
	lost  func()             // notes may have been lost
	ended func(name string)  // somebody has ended whom a claim of that line waits for

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

// openLives makes this client known. The callbacks are the caller's to fill in
// before it listens.
func openLives(path string, clients disk.Dir, client string, clock func() time.Duration, most share) (*lives, error) {
	v := &lives{client: client, clock: clock, path: path, clients: clients, most: most, monitors: map[string]*monitor{}}
	v.peers.m = map[string]*peer{}
	v.ctx, v.stop = context.WithCancel(context.Background())
	var err error
	if v.living.life, err = v.beginLife(); err != nil {
		return nil, err
	}
	return v, nil
}

// close ends this client: its claims are free when it returns, in any case.
func (v *lives) close() {
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
	v.shed()
}

// shed closes what is kept open of others.
func (v *lives) shed() {
	v.peers.Lock()
	defer v.peers.Unlock()
	for client := range v.peers.m {
		v.dropPeer(client)
	}
}

// receive reads the notes of other clients until this life ends.
func (v *lives) receive(l *life) {
	l.bell.receive(func(b []byte) {
		if c, ok := parseNote(b); ok {
			v.got(c)
		}
	}, func() {
		if l.overflow() {
			v.lost()
		}
	})
}

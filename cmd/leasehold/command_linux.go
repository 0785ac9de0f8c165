package main

import (
	"encoding/gob"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the command and everything it started, as the keeper sees them.
//
// The keeper leads the process group in which the command runs: as long as it
// lives the group's number cannot become somebody else's. The reaper, a child
// of the keeper, starts the command, says how it goes, and takes in whatever
// loses its parent; if the reaper is killed, the keeper does, being a
// subreaper too. So nothing escapes kill, not even into a session of its own,
// and "no child left" means that all of it has ended.
type group struct {
	pipe   *pipe
	reaper int // its pid

	answer               chan *started
	ended, orphan, empty chan struct{}
	reaped               chan struct{} // closed when the reaper has ended
	stops                chan syscall.Signal
	how                  status // before ended is closed
	killing              sync.Once

	// sent counts the TERMs that this process sent to the group, which it is
	// in, and has not got back yet.
	mu   sync.Mutex
	sent int
}

// newGroup starts the reaper, so that it is there when the lease is.
func newGroup(page *sharedDeadline) (*group, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	ours, theirs, err := newWires()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	fd := int(page.file.Fd())
	if err := inherit(theirs, fd); err != nil {
		return nil, err
	}
	g := &group{
		pipe: ours, answer: make(chan *started, 1),
		ended: make(chan struct{}), orphan: make(chan struct{}), empty: make(chan struct{}), reaped: make(chan struct{}),
		stops: make(chan syscall.Signal, 8),
	}
	args := []string{reaperName, "reap", strconv.Itoa(theirs), strconv.Itoa(fd)}
	g.reaper, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start the process that watches over the command: %w", err)
	}
	unix.CloseOnExec(fd)
	go g.attend(reap)
	return g, nil
}

// attend hears the reaper, and waits for children until there are none.
func (g *group) attend(reap func(changed func(pid int, ws syscall.WaitStatus))) {
	received := make(chan struct{})
	go func() {
		defer close(received)
		g.listen()
	}()
	reap(func(pid int, ws syscall.WaitStatus) {
		if pid == g.reaper && !ws.Stopped() {
			close(g.reaped)
		}
	})
	// How the command ended is known before that nothing is left: a reaper that is
	// killed right after its last word has ended before that word was read.
	<-received
	close(g.empty)
}

// listen hears the reaper until its end.
func (g *group) listen() {
	over := false
	for {
		m, _, err := g.pipe.receive()
		switch {
		case err != nil:
			if !over {
				close(g.orphan)
			}
			return
		case m.Started != nil:
			g.answer <- m.Started
		case m.Stopped != 0:
			select {
			case g.stops <- m.Stopped:
			default: // nobody listens any more
			}
		case m.Ended != nil:
			over = true
			g.how = *m.Ended
			close(g.ended)
		}
	}
}

// start has the command started in this process's group. While the reaper does
// not answer (somebody stopped it) trust is not moved on, so that its end ends
// the waiting as well.
func (g *group) start(o *order, env []string, life *os.File) error {
	if life != nil {
		if err := g.pipe.send(message{Life: true}, life); err != nil {
			return errOrphaned
		}
	}
	file, err := newMemory("leasehold-command")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := gob.NewEncoder(file).Encode(executable{o.Path, o.Command, env}); err != nil {
		return err
	}
	if err := g.pipe.send(message{Start: true}, file); err != nil {
		return errOrphaned
	}
	select {
	case s := <-g.answer:
		return s.err()
	case <-g.orphan:
		select {
		case s := <-g.answer: // it ended because it could not start it
			return s.err()
		default:
			return errOrphaned
		}
	}
}

func statusOf(ws syscall.WaitStatus) status {
	if ws.Signaled() {
		return status{Signal: ws.Signal()}
	}
	return status{Code: ws.ExitStatus()}
}

// reap waits for children, adopted ones too, until there are none.
func reap(changed func(pid int, ws syscall.WaitStatus)) {
	reapUntil(func(pid int, ws syscall.WaitStatus) bool {
		changed(pid, ws)
		return false
	})
}

// reapUntil also stops when changed says that this is enough.
func reapUntil(changed func(pid int, ws syscall.WaitStatus) (enough bool)) {
	for {
		var ws syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil, changed(pid, ws):
			return
		}
	}
}

func (g *group) exited() <-chan struct{}        { return g.ended }
func (g *group) orphaned() <-chan struct{}      { return g.orphan }
func (g *group) gone() <-chan struct{}          { return g.empty }
func (g *group) status() status                 { return g.how }
func (g *group) stopped() <-chan syscall.Signal { return g.stops }

func (g *group) letGo() { g.pipe.send(message{LetGo: true}, nil) }

// close ends the reaper and waits for that, so that nothing of leasehold is
// left when "run" has returned; but it waits for none that somebody stopped.
func (g *group) close() {
	g.pipe.conn.Close()
	select {
	case <-g.reaped:
	case <-time.After(grace):
	}
}

func (g *group) signal(sig syscall.Signal) {
	if sig == syscall.SIGTERM {
		g.mu.Lock()
		g.sent++
		g.mu.Unlock()
	}
	_ = syscall.Kill(0, sig) // there is always this process in the group
}

// echo reports whether a TERM that arrived is one of this process's own.
func (g *group) echo() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sent == 0 {
		return false
	}
	g.sent--
	return true
}

func (g *group) notify() {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

func (g *group) kill() {
	g.killing.Do(func() { go killBelow(g.empty, g.reaper) })
}

// killBelow kills everything below this process, again and again until gone is
// closed: what is being started while the list is read is found the next time,
// and what may not be killed (another user's) is waited for. The process last
// is killed when it is the only one left: until then it goes on if this
// process does not.
func killBelow(gone <-chan struct{}, last int) {
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		found := below(os.Getpid())
		for _, p := range found {
			if p.pid != last || len(found) == 1 {
				p.kill()
			}
		}
		select {
		case <-gone:
			return
		case <-time.After(pause):
		}
	}
}

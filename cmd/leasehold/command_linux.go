package main

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the command and everything it started, as the keeper sees them.
//
// The keeper leads the process group in which the command runs: as long as it
// lives the group's number cannot become somebody else's. It is also the
// subreaper of everything below it: whatever loses its parent becomes the
// keeper's child, even in a session of its own, so nothing escapes kill, and
// "no child left" means that all of it has ended.
type group struct {
	ended, empty chan struct{}
	stops        chan syscall.Signal
	how          status // before ended is closed
	killing      sync.Once

	// sent counts the TERMs that this process sent to the group, which it is
	// in, and has not got back yet.
	mu   sync.Mutex
	sent int
}

// startGroup starts the command in this process's group. The life file stays
// open in it, too: should both processes of leasehold be killed at once, the
// claim lives as long as what the command started.
func startGroup(o *order, env []string, life *os.File) (*group, error) {
	g := &group{ended: make(chan struct{}), empty: make(chan struct{}), stops: make(chan syscall.Signal, 8)}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	if life != nil {
		// Under the number it has, which is free: 3 and the next may be what
		// whoever started us meant for the command.
		if err := inherit(int(life.Fd())); err != nil {
			return nil, err
		}
	}
	started := make(chan error)
	go func() {
		// The kernel kills the command when the thread that started it ends,
		// so this one must last: it goes on as the reaper.
		runtime.LockOSThread()
		pid, err := syscall.ForkExec(o.Path, o.Command, &syscall.ProcAttr{
			Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
		})
		started <- err
		if err != nil {
			return
		}
		reap(func(got int, ws syscall.WaitStatus) {
			if got != pid {
				return
			}
			if ws.Stopped() {
				select {
				case g.stops <- ws.StopSignal():
				default: // nobody listens any more
				}
				return
			}
			g.how = statusOf(ws)
			close(g.ended)
		})
		close(g.empty)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return g, nil
}

func statusOf(ws syscall.WaitStatus) status {
	if ws.Signaled() {
		return status{Signal: ws.Signal()}
	}
	return status{Code: ws.ExitStatus()}
}

// reap waits for children, adopted ones too, until there are none.
func reap(changed func(pid int, ws syscall.WaitStatus)) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		default:
			changed(pid, ws)
		}
	}
}

func (g *group) exited() <-chan struct{}        { return g.ended }
func (g *group) gone() <-chan struct{}          { return g.empty }
func (g *group) status() status                 { return g.how }
func (g *group) stopped() <-chan syscall.Signal { return g.stops }

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

func (g *group) tell() {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

func (g *group) kill() {
	g.killing.Do(func() { go killBelow(g.empty) })
}

// killBelow kills everything below this process, again and again until gone is
// closed: what is being started while the list is read is found the next time,
// and what may not be killed (another user's) is waited for.
func killBelow(gone <-chan struct{}) {
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		for _, p := range below(os.Getpid()) {
			p.kill()
		}
		select {
		case <-gone:
			return
		case <-time.After(pause):
		}
	}
}

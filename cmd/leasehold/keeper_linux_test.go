package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A reaper that is killed right after it has said how the command ended is reaped
// before that was read. The command failed, and does not become a success.
func TestTheLastWordCountsThoughTheReaperIsGone(t *testing.T) {
	ours, theirs, err := newWires()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.conn.Close()
	reaper, err := newPipe(theirs)
	if err != nil {
		t.Fatal(err)
	}
	g := &group{pipe: ours, ended: make(chan struct{}), orphan: make(chan struct{}), empty: make(chan struct{})}
	reaped := make(chan struct{})
	go g.attend(func(func(int, syscall.WaitStatus)) { close(reaped) })
	<-reaped
	select {
	case <-g.gone():
		t.Error("nothing is left, and how the command ended is unknown")
	case <-time.After(50 * time.Millisecond): // what should not happen has no event
	}
	if err := reaper.send(message{Ended: &status{Code: 3}}, nil); err != nil {
		t.Fatal(err)
	}
	reaper.conn.Close()
	<-g.gone()
	if got := g.status(); got.code() != 3 {
		t.Errorf("exit code %d", got.code())
	}
}

// A person answers what the command shows, which may be before the keeper knows
// that it runs. The terminal's signal has gone to the command as well.
func TestCtrlCIsNotPassedOnToACommandThatGotIt(t *testing.T) {
	ours, theirs, err := newWires()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.conn.Close()
	reaper, err := newPipe(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer reaper.conn.Close()
	f := &remoteLauncher{sigs: make(chan syscall.Signal, 16)}
	g := &group{pipe: ours, answer: make(chan *started, 1), ended: make(chan struct{}), orphan: make(chan struct{})}
	running := make(chan struct{})
	go func() {
		defer close(running)
		_, file, err := reaper.receive() // the order to start it
		if err != nil {
			t.Error(err)
		}
		file.Close()
		// It runs, and its group gets a signal, before that is known here.
		f.received(syscall.SIGINT)
		f.received(syscall.SIGTERM) // this one went to the keeper's pid alone
		g.answer <- &started{}
	}()
	f.received(syscall.SIGQUIT) // nobody has got this one but the keeper
	if _, err := f.start(g, &order{Path: "/bin/true"}, os.Environ(), nil); err != nil {
		t.Fatal(err)
	}
	<-running
	for _, want := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGTERM} {
		select {
		case sig := <-f.sigs:
			if sig != want {
				t.Fatalf("passed on: %v, want %v", sig, want)
			}
		default:
			t.Fatalf("%v is lost", want)
		}
	}
	if len(f.sigs) > 0 {
		t.Errorf("passed on as well: %v", <-f.sigs)
	}
}

// firstThread is set for a copy of this program whose first thread ends at once.
const firstThread = "LEASEHOLD_TEST_FIRST_THREAD_ENDS"

func init() {
	if os.Getenv(firstThread) == "" {
		return
	}
	go func() {
		time.Sleep(time.Minute)
		os.Exit(0)
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // this thread alone
}

// The kernel shows a process as a zombie when its first thread has ended, and its others run on.
func TestAProcessWithoutItsFirstThreadLives(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), firstThread+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	defer func() {
		cmd.Process.Kill()
		<-ended
	}()
	until(t, "its first thread has ended", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && strings.Contains(string(text), ") Z ")
	})
	p, lives := look(cmd.Process.Pid)
	if !lives {
		t.Fatal("it counts as ended, and would not be killed")
	}
	p.kill()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("it was not killed")
	}
}

// Whoever got the pid of what was to be killed lives on.
func TestAnotherOfThatPidIsNotKilled(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	p, ok := look(cmd.Process.Pid)
	if !ok {
		t.Fatal("it does not run")
	}
	old := p
	old.started = "1"
	old.kill()
	time.Sleep(50 * time.Millisecond) // what should not happen has no event
	if _, lives := look(p.pid); !lives {
		t.Fatal("killed")
	}
	p.kill()
	until(t, "it is killed", func() bool { _, lives := look(p.pid); return !lives })
}

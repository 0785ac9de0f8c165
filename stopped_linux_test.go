package leasehold

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/engine/filelock"
)

// stoppedEnv makes the test binary the process that is stopped.
const stoppedEnv = "LEASEHOLD_TEST_STOPPED_DIR"

// TestStoppedHolderSeesLossBeforeItsFirstWrite stops a real process past its
// TTL and continues it: what it does next must find the lease lost. Another
// process holds meanwhile, with a higher token.
func TestStoppedHolderSeesLossBeforeItsFirstWrite(t *testing.T) {
	if dir := os.Getenv(stoppedEnv); dir != "" {
		stoppedHolder(dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStoppedHolderSeesLossBeforeItsFirstWrite$")
	cmd.Env = append(os.Environ(), stoppedEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatal("the holder ended:", lines.Err())
		}
		return lines.Text()
	}
	held, ok := strings.CutPrefix(next(), "held ")
	if !ok {
		t.Fatal("no lease:", held)
	}
	// It is at work: each line is a write under a valid lease.
	if got := next(); got != "write" {
		t.Fatal(got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Whatever it wrote before it was stopped ends with this mark.
	c := fileClient(t, dir)
	l, err := c.Lock(t.Context(), "x") // waits for its TTL to pass
	if err != nil {
		t.Fatal(err)
	}
	if l.Token().String() <= held {
		t.Errorf("token %v after %v", l.Token(), held)
	}
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for {
		switch got := next(); got {
		case "write":
			// From before the stop: it was in the pipe. The holder itself
			// reports any write after "taken" appeared.
		case "lost":
			in.Close()
			if !l.Valid() {
				t.Error("the continued process took the lease of the next one")
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
			return
		default:
			t.Fatal(got)
		}
	}
}

func fileClient(t *testing.T, dir string) *Client {
	eng, err := filelock.New(filepath.Join(dir, "locks"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// stoppedHolder writes as long as its lease is valid and says how it ended.
func stoppedHolder(dir string) {
	eng, err := filelock.New(filepath.Join(dir, "locks"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := New(eng, &Options{TTL: 3 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := c.Lock(context.Background(), "x")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held", l.Token())
	for l.Valid() {
		// A stop between Valid and this queue is what no lock can exclude; it is
		// a few instructions wide, so the mark tells a late write from that.
		if _, err := os.Stat(filepath.Join(dir, "taken")); err == nil && l.Valid() {
			fmt.Println("wrote after somebody else held")
			return
		}
		fmt.Println("write")
		time.Sleep(5 * time.Millisecond)
	}
	if err := context.Cause(l.Context()); !errors.Is(err, ErrLost) {
		fmt.Println("cause", err)
		return
	}
	if err := l.Unlock(); !errors.Is(err, ErrLost) {
		fmt.Println("unlock", err)
		return
	}
	fmt.Println("lost")
	os.Exit(0)
}

package proc

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestWhatAProcessTakes(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before // a kernel that counts by its ticks may not see 50 ms of work on a busy machine
	for began := time.Now(); after <= before && time.Since(began) < 10*time.Second; {
		if after, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if after <= before {
		t.Errorf("%v of CPU, and after 10 s of work %v", before, after)
	}
	alone, err := Memory(os.Getpid())
	if err != nil || alone < 1<<20 {
		t.Errorf("%d bytes, %v", alone, err)
	}
	if _, err := CPU(1 << 30); err == nil {
		t.Error("no process, and no error")
	}
}

// A child of the process counts: here a loop that a shell has begun.
func TestAChildCounts(t *testing.T) {
	shell := exec.Command("sh", "-c", "while :; do :; done & echo $!; wait")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer syscall.Kill(child, syscall.SIGKILL) // and the shell ends
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		with, err := CPU(shell.Process.Pid)
		own, err2 := cpuOf(shell.Process.Pid)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if with > own {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%v with the child, %v without", with, own)
		}
	}
}

func TestConnections(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for want := range 3 {
		if n, err := Connections(l.Addr().String()); err != nil || n != want {
			t.Errorf("%d connections, %v; want %d", n, err, want)
		}
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if _, err := Connections("nowhere"); err == nil {
		t.Error("no address, and no error")
	}
}

package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// A signal that asks to end may come after the loss, while a keeper leaves the queue. The command
// has ended then, and must not run again.
func TestASignalAfterTheLossIsHeard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		f     starter
		again bool
	}{
		{"lost", starter{ended: &status{Again: true}}, true},
		{"lost, and asked since", starter{ended: &status{Again: true}, asked: true}, false},
		{"ended by itself", starter{ended: &status{}}, false},
		{"killed", starter{}, true},
		{"killed, and asked", starter{asked: true}, false},
	} {
		c.f.order = &order{Term: 1}
		if again := c.f.standsAgain(); again != c.again {
			t.Errorf("the launcher, %s: stands again: %v", c.name, again)
		}
	}
	// A signal to the pid that "show" shows reaches the keeper alone.
	for sig, again := range map[syscall.Signal]bool{syscall.SIGTERM: false, syscall.SIGWINCH: true} {
		launcher := &stubLauncher{sigs: make(chan syscall.Signal, 1)}
		launcher.sigs <- sig
		k := &keeper{order: &order{Term: 1}, launcher: launcher}
		if got := k.standsAgain(&exitError{codeLost, errOrphaned}); got != again {
			t.Errorf("the keeper, after %v: stands again: %v", sig, got)
		}
	}
}

// What is ignored stays so in what is started, and the next term starts a command.
func TestATermLeavesNoSignalIgnored(t *testing.T) {
	stops := []os.Signal{syscall.SIGTTOU, syscall.SIGTTIN}
	signal.Ignore(stops...)
	unignore(stops)
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, mask, _ := strings.Cut(string(text), "SigIgn:")
	var ignored uint64
	if _, err := fmt.Sscanf(mask, "%x", &ignored); err != nil {
		t.Fatal(err)
	}
	for _, sig := range stops {
		if ignored&(1<<(sig.(syscall.Signal)-1)) != 0 {
			t.Errorf("%v is ignored", sig)
		}
	}
}

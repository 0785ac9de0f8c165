package curator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/lab/servers"
	"leasehold/lab/servers/fleet"
)

// TestMain lets the test binary be processes of ours too.
func TestMain(m *testing.M) {
	if fleet.Inside() {
		if err := copied(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// built is the Java program; where it cannot be had the test is skipped aloud.
func built(t *testing.T) *Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a first build fetches 20 MB
	defer cancel()
	p, err := Build(ctx, Current)
	if errors.Is(err, ErrMissing) {
		servers.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// started is one Java process for the length of a test.
func started(t *testing.T, p *Program, o Options) *Process {
	t.Helper()
	// Short-lived processes are better off without the second compiler.
	o.JVM = append(o.JVM, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	java, err := p.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Curator %s said: %s", p.Release, java.Said())
		}
		java.Close()
	})
	return java
}

func TestAnotherReleaseThanAskedForIsRefused(t *testing.T) {
	server := servers.ZooKeeper(t, nil)
	wrong := *built(t)
	wrong.Release = "5.4.0"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := wrong.Start(ctx, Options{Servers: []string{server.Addr}})
	if err == nil {
		p.Kill()
		t.Fatal("Curator " + Current + " passed for 5.4.0")
	}
}

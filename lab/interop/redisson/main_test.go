package redisson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	it "leasehold/lab/interop/internal/interoptest"
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
	// What rueidis does on a Cluster that ends by itself: its look at the topology
	// sleeps up to a second, the closing of nodes that left up to five.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// built is the Java program for a release; where it cannot be had the test is
// skipped aloud.
func built(t *testing.T, release string) *Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a first build fetches 20 MB
	defer cancel()
	p, err := Build(ctx, release)
	if errors.Is(err, ErrMissing) {
		servers.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// releases are those that tests run with. The current one stands for both in a short run.
func releases() []string {
	if testing.Short() {
		return []string{Current}
	}
	return []string{Current, Old}
}

// started is one Java process for the length of a test.
func started(t *testing.T, p *Program, o Options) *Process {
	t.Helper()
	// Short-lived processes are better off without the second compiler.
	o.JVM = append(o.JVM, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
	java, err := p.Start(it.Within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Redisson %s said: %s", p.Release, java.Said())
		}
		java.Close()
	})
	return java
}

// wasInterrupted says that a command ended by an interrupt. Redisson wraps it where it
// came while a request was under way.
func wasInterrupted(t *testing.T, a Answer) {
	t.Helper()
	var e *Exception
	if !errors.As(a.Err, &e) || e.Class != "InterruptedException" && e.Message != "java.lang.InterruptedException" {
		t.Errorf("the interrupted waiter: %+v", a)
	}
}

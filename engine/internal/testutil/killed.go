package testutil

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/boottime"
)

// KilledTTL is the TTL of a holder that is killed.
const KilledTTL = 2 * time.Second

// holderOf is set in a process that holds a name until it is killed: the URL of an engine.
const holderOf = "LEASEHOLD_TEST_HOLDER"

// HoldIfAsked is for TestMain: in a process that [Killed] starts it holds a name and
// does not return.
func HoldIfAsked(open func(ctx context.Context, url string) (engine.Engine, error)) {
	url := os.Getenv(holderOf)
	if url == "" {
		return
	}
	eng, err := open(context.Background(), url)
	if err == nil {
		var locks *leasehold.Client
		if locks, err = leasehold.New(eng, &leasehold.Options{TTL: KilledTTL}); err == nil {
			_, err = locks.Lock(context.Background(), "killed")
		}
	}
	fmt.Println("holds", err)
	select {}
}

// Killed is how long after a holder was killed (SIGKILL) the next one held, in the median
// of some rounds: each kills it a step later after its last sign of life.
func Killed(t *testing.T, eng engine.Engine, url string, rounds int, step time.Duration) time.Duration {
	t.Helper()
	took := KilledEach(t, eng, url, rounds, step)
	return took[len(took)/2]
}

// KilledEach is how long it took in each round of [Killed], the fastest first.
func KilledEach(t *testing.T, eng engine.Engine, url string, rounds int, step time.Duration) []time.Duration {
	t.Helper()
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	var took []time.Duration
	for round := range rounds {
		took = append(took, killed(t, locks, url, KilledTTL+time.Duration(round)*step))
	}
	t.Logf("the next held after %v", took)
	slices.Sort(took)
	return took
}

func killed(t *testing.T, locks *leasehold.Client, url string, held time.Duration) time.Duration {
	t.Helper()
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), holderOf+"="+url)
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "holds <nil>\n" {
		t.Fatal(said, err)
	}
	next := make(chan *leasehold.Lease, 1)
	go func() {
		l, err := locks.Lock(Within(t), "killed")
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	Until(t, "the next does not wait", func() bool {
		l, err := locks.Queue(Within(t), "killed")
		return err == nil && len(l.Claims) == 2
	})
	time.Sleep(held)
	began := boottime.Now() // before the signal, so that the figure is never too small
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	l := <-next
	took := boottime.Now() - began
	if l == nil {
		t.FailNow()
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
	return took
}

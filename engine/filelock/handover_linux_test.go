package filelock

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
)

// Two processes hand one lock to and fro. Each holds it long enough for the
// other to be waiting; the hand-over is measured from the start of the call
// that gives it up to the moment the other knows that it holds.

const holdFor = 300 * time.Microsecond

// handoverRole prints, per turn, who it was, when it began to hold and when to
// give up, of as many clients as it is told to be.
func handoverRole(args []string) error {
	rounds, _ := strconv.Atoi(args[1])
	clients, _ := strconv.Atoi(args[2])
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for who := range clients {
		wg.Go(func() {
			if err := takeTurns(args[0], rounds, func(begin, end time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintln(out, who, int64(begin), int64(end))
			}); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	wg.Wait()
	return nil
}

func takeTurns(dir string, rounds int, say func(begin, end time.Duration)) error {
	e, err := New(dir, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	held := make(chan engine.ID, 16)
	go e.Watch(ctx, func(c engine.Claim) {
		if c.State == engine.Held {
			held <- c.ID
		}
	})
	for range rounds {
		r := engine.Request{Name: "ball", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
		c, err := e.Join(ctx, r)
		if err != nil {
			return err
		}
		for c.State != engine.Held {
			if id := <-held; id == r.ID {
				c.State = engine.Held
			}
		}
		begin := monotonic()
		time.Sleep(holdFor)
		end := monotonic()
		if _, err := e.Leave(ctx, []engine.Claim{c}); err != nil {
			return err
		}
		say(begin, end)
	}
	return nil
}

// flockRole does the same with nothing but flock(2).
func flockRole(args []string) error {
	rounds, _ := strconv.Atoi(args[1])
	fd, err := unix.Open(args[0], unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for range rounds {
		if err := disk.Again(func() error { return unix.Flock(fd, unix.LOCK_EX) }); err != nil {
			return err
		}
		begin := monotonic()
		time.Sleep(holdFor)
		end := monotonic()
		unix.Flock(fd, unix.LOCK_UN)
		fmt.Fprintln(out, 0, int64(begin), int64(end))
		time.Sleep(holdFor / 2) // flock knows no order: let the other have it
	}
	return nil
}

// handovers runs processes of a role and returns the times between one client
// giving up and the next holding, sorted.
func handovers(t testing.TB, role, path string, rounds, processes, clients int) []time.Duration {
	type turn struct {
		who        string
		begin, end time.Duration
	}
	turns := make(chan turn, 2*rounds*processes*clients)
	var done sync.WaitGroup
	for process := range processes {
		_, _, out := start(t, role, path, strconv.Itoa(rounds), strconv.Itoa(clients))
		done.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var who int
				var b, e int64
				if n, _ := fmt.Sscan(lines.Text(), &who, &b, &e); n == 3 {
					turns <- turn{fmt.Sprint(process, " ", who), time.Duration(b), time.Duration(e)}
				}
			}
		})
	}
	done.Wait()
	close(turns)
	var all []turn
	for x := range turns {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b turn) int { return int(a.begin - b.begin) })
	var took []time.Duration
	for i := 1; i < len(all); i++ {
		if all[i].begin < all[i-1].end {
			t.Errorf("%s: client %s began to hold %v before client %s gave up", role, all[i].who, all[i-1].end-all[i].begin, all[i-1].who)
		}
		if all[i].who != all[i-1].who {
			took = append(took, all[i].begin-all[i-1].end)
		}
	}
	if len(took) < rounds {
		t.Fatalf("%s: only %d hand-overs in %d turns", role, len(took), len(all))
	}
	slices.Sort(took)
	return took
}

// BenchmarkHandover prints the median hand-over between two processes, beside
// that of a blocking flock in the same run.
func BenchmarkHandover(b *testing.B) {
	const rounds = 1000
	for b.Loop() {
		dir := b.TempDir()
		ours := handovers(b, "handover", filepath.Join(dir, "state"), rounds, 2, 1)
		flock := handovers(b, "flock", filepath.Join(dir, "flock"), rounds, 2, 1)
		p50, highWater := ours[len(ours)/2], flock[len(flock)/2]
		b.ReportMetric(float64(p50)/1e3, "µs-p50")
		b.ReportMetric(float64(ours[len(ours)*99/100])/1e3, "µs-p99")
		b.ReportMetric(float64(highWater)/1e3, "flock-µs-p50")
		b.ReportMetric(float64(p50)/float64(highWater), "x-flock")
	}
}

// BenchmarkLongQueue compares the hand-over in a queue of 104 clients in 8
// processes with that in a queue of 2.
func BenchmarkLongQueue(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		short := handovers(b, "handover", filepath.Join(dir, "short"), 1000, 2, 1)
		long := handovers(b, "handover", filepath.Join(dir, "long"), 20, 8, 13)
		b.ReportMetric(float64(short[len(short)/2])/1e3, "µs-p50-of-2")
		b.ReportMetric(float64(long[len(long)/2])/1e3, "µs-p50-of-104")
		b.ReportMetric(float64(long[len(long)/2])/float64(short[len(short)/2]), "x")
	}
}

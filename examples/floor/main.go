// Floor numbers the replies of discussion threads. Each reply gets the next
// floor of its thread, and no reader ever sees half a reply. A writer holds the
// thread's lock. A reader holds the same lock shared, so readers do not wait for each
// other. Each thread has a name of its own, so two threads never wait for each other.
//
//	go run -C examples ./floor              # with the lock: 1, 2, 3, ...
//	go run -C examples ./floor -lock=false  # without: two replies on one floor
//
// It prints what happened, and fails if a floor was given twice or a page was
// read half written.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"leasehold"
	"leasehold/examples/internal/locks"
	"leasehold/lab/servers/fleet"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// threads is how many threads are discussed at once.
const threads = 2

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("floor", flag.ExitOnError)
	lock := flags.Bool("lock", true, "hold the thread's lock while writing and reading")
	length := flags.Duration("for", 3*time.Second, "how long people write")
	procs := flags.Int("procs", 4, "how many processes write and read")
	flags.Parse(args)

	if fleet.Inside() {
		return work(*lock, *length)
	}
	dir, err := os.MkdirTemp("", "floor")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return oversee(dir, *lock, *length, *procs, out)
}

// work is one process: write a reply, read the page, in one thread after the
// other.
func work(lock bool, length time.Duration) error {
	ctx := context.Background()
	client, err := locks.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()

	fleet.Begin()
	turn := fleet.Place()
	for end := time.Now().Add(length); time.Now().Before(end); turn++ {
		thread := turn % threads
		name := fmt.Sprintf("thread:%d", thread)

		floor, err := 0, error(nil)
		if lock {
			err = client.Do(ctx, name, func(context.Context, *leasehold.Lease) error {
				floor, err = reply(thread)
				return err
			})
		} else {
			floor, err = reply(thread)
		}
		if err != nil {
			return err
		}
		fleet.Print(fmt.Sprintf("floor %d %d", thread, floor))

		whole := false
		if lock {
			l, err := client.RLock(ctx, name)
			if err != nil {
				return err
			}
			whole, err = read(thread)
			if err := errors.Join(err, l.Unlock()); err != nil {
				return err
			}
		} else if whole, err = read(thread); err != nil {
			return err
		}
		if !whole {
			fleet.Print(fmt.Sprintf("torn %d", thread))
		}
	}
	return nil
}

// reply writes one reply and returns its floor: one more than the replies
// there are. The page is then the replies and, in a file beside, how many.
func reply(thread int) (floor int, err error) {
	page, err := os.ReadFile(pageFile(fleet.Dir(), thread))
	if err != nil {
		return 0, err
	}
	floor = bytes.Count(page, []byte("\n")) + 1
	f, err := os.OpenFile(pageFile(fleet.Dir(), thread), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(f, "#%d process %d: I agree\n", floor, fleet.Place())
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	count := countFile(fleet.Dir(), thread)
	draft := fmt.Sprintf("%s.%d", count, fleet.Place())
	if err := os.WriteFile(draft, fmt.Appendln(nil, floor), 0o600); err != nil {
		return 0, err
	}
	return floor, os.Rename(draft, count)
}

// read reports whether the page has as many replies as it says.
func read(thread int) (whole bool, err error) {
	page, err1 := os.ReadFile(pageFile(fleet.Dir(), thread))
	text, err2 := os.ReadFile(countFile(fleet.Dir(), thread))
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	count, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return count == bytes.Count(page, []byte("\n")), err
}

func pageFile(dir string, thread int) string {
	return filepath.Join(dir, fmt.Sprintf("thread-%d", thread))
}

func countFile(dir string, thread int) string {
	return filepath.Join(dir, fmt.Sprintf("count-%d", thread))
}

var errFloor = errors.New("a floor was given twice, or a page was read half written")

// oversee runs the processes and checks the floors they give.
func oversee(dir string, lock bool, length time.Duration, procs int, out io.Writer) error {
	for thread := range threads {
		if err := errors.Join(
			os.WriteFile(pageFile(dir, thread), nil, 0o600),
			os.WriteFile(countFile(dir, thread), []byte("0\n"), 0o600),
		); err != nil {
			return err
		}
	}
	given := map[string]int{} // how often each floor of each thread was given
	replies, twice, torn := 0, 0, 0
	args := []string{fmt.Sprintf("-lock=%t", lock), "-for", length.String()}
	err := fleet.Run(context.Background(), procs, dir, args, func(_ int, line string) {
		if strings.HasPrefix(line, "torn ") {
			torn++
			return
		}
		replies++
		if given[line]++; given[line] == 2 {
			twice++
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d replies in %d threads by %d processes; floors given twice: %d; pages read half written: %d\n",
		replies, threads, procs, twice, torn)
	if twice+torn > 0 {
		return errFloor
	}
	return nil
}

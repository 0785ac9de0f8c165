package curator

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/engine/zookeeper/zklock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers/fleet"
)

// copied is what a copy of this test binary does, by its arguments:
//
//	hold URL NAME                      lock, say "held", and never unlock
//	add URL NAME ADDR COUNTER TIMES    read numbers and write them back with the first one higher, under the lock
func copied(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*it.Bound)
	defer cancel()
	eng, err := zklock.Open(ctx, args[1])
	if err != nil {
		return err
	}
	var o leasehold.Options
	if args[0] == "hold" {
		o.TTL = brief / 2 // the end of its session is waited for
	}
	c, err := leasehold.New(eng, &o)
	if err != nil {
		return err
	}
	defer c.Close()
	if args[0] == "hold" {
		if _, err := c.Lock(ctx, args[2]); err != nil {
			return err
		}
		fleet.Print("held")
		bufio.NewReader(os.Stdin).ReadByte() // until it is killed
		return nil
	}
	times, err := strconv.Atoi(args[5])
	if err != nil {
		return err
	}
	conn, err := dial(args[3])
	if err != nil {
		return err
	}
	defer conn.Close()
	for range times {
		err := c.Do(ctx, args[2], func(context.Context, *leasehold.Lease) error { return add(conn, args[4]) })
		if err != nil {
			return err
		}
	}
	return nil
}

func add(conn *zk.Conn, counter string) error {
	b, _, err := conn.Get(counter)
	if err != nil {
		return err
	}
	ours, theirs, err := numbers(b)
	if err != nil {
		return err
	}
	_, err = conn.Set(counter, fmt.Appendf(nil, "%d %d", ours+1, theirs), -1)
	return err
}

func numbers(b []byte) (ours, theirs int, err error) {
	_, err = fmt.Sscanf(string(b), "%d %d", &ours, &theirs)
	return ours, theirs, err
}

// Two processes of ours and two of Java's. Nothing but the lock protects the
// numbers, of which each side raises one and writes both: whoever writes beside
// another takes something back, of its own side or of the other.
func counter(t *testing.T, r *rig, layout, kind string) {
	times := it.Rounds(500, 50) // by each of four
	name := it.NameOf(t)
	at := "/counter:" + strings.ReplaceAll(name, "/", ":")
	r.create(t, at, "0 0")
	gate := it.Got(t, it.Lock(t, r.client(t, layout), name))
	var java []<-chan Answer
	for _, p := range []*Process{r.java, r.other} {
		java = append(java, p.Thread(1).Go("add", kind, pathOf(name), at, "1", strconv.Itoa(times)))
	}
	ours := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*it.Bound)
	defer cancel()
	go func() {
		args := []string{"add", r.url(layout), name, r.server.Addr, at, strconv.Itoa(times)}
		ours <- fleet.Run(ctx, 2, t.TempDir(), args, func(int, string) {})
	}()
	r.lined(t, name, holds, 0, 1, 2, 3) // all begin at once
	it.Unlocked(t, gate)
	if err := <-ours; err != nil {
		t.Errorf("ours: %v", err)
	}
	for _, c := range java {
		it.Done(t, c)
	}
	b, _, err := r.admin.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	if a, j, err := numbers(b); err != nil || a != 2*times || j != 2*times {
		t.Errorf("each side made %d increments; of ours %d are there, of Java's %d: %v", 2*times, a, j, err)
	}
}

func killed(t *testing.T, r *rig) {
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		a := r.java.Thread(1)
		ctx, kill := context.WithCancel(it.Within(t))
		defer kill()
		held := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			args := []string{"hold", r.url(mutexes), name}
			ended <- fleet.Run(ctx, 1, t.TempDir(), args, func(int, string) { close(held) })
		}()
		select {
		case <-held:
		case err := <-ended:
			t.Fatalf("the holder has ended: %v", err)
		}
		waits := a.Go("acquire", Mutex, pathOf(name))
		r.lined(t, name, holds, 0)
		kill()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(r.line(t, name)); n != 2 {
			t.Error("the dead holder's node was gone at once: it has unlocked")
		}
		it.Done(t, waits)
		r.lined(t, name, holds)
		it.Does(t, a, "release", Mutex, pathOf(name))
	})
	t.Run("Java", func(t *testing.T) {
		name := it.NameOf(t)
		holder := started(t, r.program, Options{Servers: []string{r.server.Addr}, Session: brief})
		it.Does(t, holder.Thread(1), "acquire", Mutex, pathOf(name))
		waits := it.Lock(t, r.client(t, mutexes), name)
		r.lined(t, name, holds, 0)
		holder.Kill()
		if n := len(r.line(t, name)); n != 2 {
			t.Error("the dead holder's node was gone at once: it has unlocked")
		}
		it.Unlocked(t, it.Got(t, waits))
		r.lined(t, name)
	})
}

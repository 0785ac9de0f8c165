package filelock

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
)

// roles are what the test binary does when it is started by a test as another
// process.
var roles = map[string]func(args []string) error{
	"client":   clientRole,
	"handover": handoverRole,
	"flock":    flockRole,
	"exclude":  excludeRole,
	"few":      fewRole,
	"barred":   barredRole,
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv("FILELOCK_ROLE")]; role != nil {
		if err := role(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// start runs a role. The process is ended with the test, by its own id.
func start(t testing.TB, role string, args ...string) (*exec.Cmd, io.WriteCloser, io.Reader) {
	t.Helper()
	return startAs(t, role, exec.Command(os.Args[0], args...))
}

// startAs runs a command that becomes a role.
func startAs(t testing.TB, role string, cmd *exec.Cmd) (*exec.Cmd, io.WriteCloser, io.Reader) {
	t.Helper()
	cmd.Env = append(os.Environ(), "FILELOCK_ROLE="+role)
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
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // SIGKILL ends a stopped process too
		_ = cmd.Wait()
	})
	return cmd, in, out
}

// order is what a test asks a client process to do.
type order struct {
	Do   string // join, try, renew, leave, sweep
	Name string
	ID   string
	TTL  time.Duration
	At   string // the step at which it stops or kills itself
	Kill bool

	Label string
}

// answer is what it says: to an order, or by itself when Watch says something.
type answer struct {
	Claim        engine.Claim
	ID           string
	Err          string
	Notification bool
	At           time.Duration // CLOCK_MONOTONIC, the same in all processes
}

func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// clientRole is an engine under orders from its standard input.
func clientRole(args []string) error {
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		a.At, a.ID = monotonic(), a.Claim.ID.Secret()
		_ = out.Encode(a)
	}
	var now atomic.Pointer[order]
	step := func(step string) {
		o := now.Load()
		if o == nil || o.At != step || !now.CompareAndSwap(o, nil) {
			return
		}
		sig := unix.SIGSTOP
		if o.Kill {
			sig = unix.SIGKILL
		}
		// To this very thread, which is then stopped when the call returns.
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
	}
	e, err := New(args[0], &Options{patience: brief, idle: 1, hook: step, wrap: func(f disk.File) disk.File { return slowFile{f, step} }})
	if err != nil {
		return err
	}
	defer e.Close()
	ctx := context.Background()
	go e.Watch(ctx, func(c engine.Claim) { say(answer{Claim: c, Notification: true}) })
	in := json.NewDecoder(os.Stdin)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return nil // the test closed our input: end properly
		}
		if o.At != "" {
			now.Store(&o)
		}
		id, _ := engine.ParseID(o.ID)
		var c engine.Claim
		switch o.Do {
		case "join", "try":
			c, err = e.Join(ctx, engine.Request{
				Name: o.Name, ID: id, Permits: engine.Max, Limit: engine.Max, WaitTTL: o.TTL, NoWait: o.Do == "try",
				Owner: engine.Owner{Host: "test", PID: os.Getpid(), Label: "client" + o.Label},
			})
		case "renew", "leave":
			var cs []engine.Claim
			if o.Do == "renew" {
				cs, err = e.Renew(ctx, []engine.Renewal{{Name: o.Name, ID: id, Want: o.TTL}})
			} else {
				cs, err = e.Leave(ctx, []engine.Claim{{Name: o.Name, ID: id}})
			}
			if len(cs) > 0 {
				c = cs[0]
			}
		case "sweep":
			if _, err = e.store.records.Sweep(ctx, ""); err == nil {
				err = e.store.lives.Sweep(ctx)
			}
		}
		now.Store(nil)
		a := answer{Claim: c}
		if err != nil {
			a.Err = err.Error()
		}
		say(a)
	}
}

// slowFile writes in two halves, between which its process may stop.
type slowFile struct {
	disk.File
	step func(string)
}

func (f slowFile) WriteAt(b []byte, off int64) error {
	half := len(b) / 2
	if err := f.File.WriteAt(b[:half], off); err != nil {
		return err
	}
	f.step("half written")
	return f.File.WriteAt(b[half:], off+int64(half))
}

// remote is a client process as a test sees it.
type remote struct {
	t             testing.TB
	cmd           *exec.Cmd
	in            io.WriteCloser
	out           io.Reader
	reply         chan answer
	notifications chan answer
}

func newRemote(t testing.TB, dir string) *remote {
	t.Helper()
	var r remote
	r.cmd, r.in, r.out = start(t, "client", dir)
	return r.begin(t)
}

// begin waits until the process watches.
func (r *remote) begin(t testing.TB) *remote {
	t.Helper()
	r.t, r.reply, r.notifications = t, make(chan answer, 16), make(chan answer, 1024)
	go func() {
		defer close(r.reply)
		defer close(r.notifications)
		for lines := bufio.NewScanner(r.out); lines.Scan(); {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				continue
			}
			a.Claim.ID, _ = engine.ParseID(a.ID)
			if a.Notification {
				r.notifications <- a
			} else {
				r.reply <- a
			}
		}
	}()
	if a := r.notification(); a.Claim.Name != "" { // its Watch has begun
		t.Fatalf("first notification %+v", a)
	}
	return r
}

const patient = 40 * time.Second // and less than the minute after which all is swept again

func (r *remote) order(o order) {
	r.t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	b, _ := json.Marshal(o)
	if _, err := r.in.Write(append(b, '\n')); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remote) answer() answer {
	r.t.Helper()
	select {
	case a, ok := <-r.reply:
		if !ok {
			r.t.Fatal("the client process ended")
		}
		return a
	case <-time.After(patient):
		r.t.Fatal("no answer from the client process")
	}
	panic("not reached")
}

func (r *remote) notification() answer {
	r.t.Helper()
	select {
	case a, ok := <-r.notifications:
		if !ok {
			r.t.Fatal("the client process ended")
		}
		return a
	case <-time.After(patient):
		r.t.Fatal("no notification from the client process")
	}
	panic("not reached")
}

// do gives an order and returns the claim it is answered with.
func (r *remote) do(what, name string, id engine.ID) engine.Claim {
	r.t.Helper()
	r.order(order{Do: what, Name: name, ID: id.Secret()})
	a := r.answer()
	if a.Err != "" {
		r.t.Fatalf("%s %q: %s", what, name, a.Err)
	}
	return a.Claim
}

// stopped waits until the process is stopped by a signal.
func (r *remote) stopped() {
	r.t.Helper()
	for late := time.Now().Add(patient); time.Now().Before(late); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
		if err != nil {
			r.t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest, "T") {
			return
		}
	}
	r.t.Fatal("the client process did not stop")
}

func (r *remote) signal(s unix.Signal) {
	r.t.Helper()
	if err := unix.Kill(r.cmd.Process.Pid, s); err != nil {
		r.t.Fatal(err)
	}
}

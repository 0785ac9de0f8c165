package engines

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// Cycles of callers in several processes, and waits without a cycle. make cycles
// asks for as many as the bars say; time is held against its bar only then, since
// this machine may be busy.
var (
	cycles  = flag.Int("cycles", 24, "how many cycles are broken on each engine")
	unlucky = flag.Int("cycles.unlucky", 12, "how many cycles have processes killed or stopped among them")
	waits   = flag.Int("cycles.waits", 600, "how many waits without a cycle are looked into on each engine")
	timed   = flag.Bool("cycles.timed", false, "fail where a cycle lasts for more than two periods")
)

const members = 6

// sized is a number of the flags, or a fraction of it with -short.
func sized(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// beside lets a test run beside others, unless time is measured.
func beside(t *testing.T) {
	if !*timed {
		t.Parallel()
	}
}

// overAll runs a test on every engine that shows who waits and is shared by processes,
// on servers of its own. With -short: on one that expires by TTL in files, one in
// scripts and one with sessions.
func overAll(t *testing.T, f func(t *testing.T, url string)) {
	overEngines(t, f)
	t.Run("etcdlock", func(t *testing.T) {
		beside(t)
		f(t, "etcd://"+servers.Etcd(t, nil).Addr)
	})
	if testing.Short() {
		return // make test-long has the others
	}
	t.Run("pglock", func(t *testing.T) {
		beside(t)
		f(t, servers.Postgres(t, nil).URL("", ""))
	})
	t.Run("zklock", func(t *testing.T) {
		beside(t)
		f(t, "zookeeper://"+servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second}).Addr)
	})
}

// overEngines runs a test on a directory and on a Redis server of its own.
func overEngines(t *testing.T, f func(t *testing.T, url string)) {
	t.Run("filelock", func(t *testing.T) {
		beside(t)
		f(t, "dir://"+t.TempDir())
	})
	t.Run("queuelock", func(t *testing.T) {
		beside(t)
		f(t, "redis://"+servers.Redis(t, nil).Addr)
	})
}

// process is a member that runs.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	orders *json.Encoder

	mu      sync.Mutex
	answers map[int]chan reply
	died    bool
}

func startMember(t *testing.T, url string, period time.Duration) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), answers: map[int]chan reply{}}
	p.cmd.Env = append(os.Environ(), memberURL+"="+url, memberPeriod+"="+period.String())
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.orders = in, json.NewEncoder(in)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for dec := json.NewDecoder(out); ; {
			var r reply
			if dec.Decode(&r) != nil {
				break
			}
			p.answer(r.ID) <- r // capacity 2: held, and what came of the wait
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.died = true
		for _, c := range p.answers {
			close(c)
		}
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		in.Close()
		p.cmd.Process.Signal(syscall.SIGCONT) // of this process, by its id
		select {
		case <-over:
		case <-time.After(20 * time.Second):
			p.cmd.Process.Kill()
			<-over
		}
	})
	return p
}

func (p *process) answer(id int) chan reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.answers[id]
	if c == nil {
		c = make(chan reply, 2)
		if p.died {
			close(c)
		}
		p.answers[id] = c
	}
	return c
}

// say gives an order. A process that has died hears nothing.
func (p *process) say(o order) {
	p.answer(o.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.orders.Encode(o)
}

// hear waits for what came of one: "died" if its process has.
func (p *process) receive(id int) reply {
	p.t.Helper()
	select {
	case r, ok := <-p.answer(id):
		if !ok {
			r.What = "died"
		}
		return r
	case <-time.After(90 * time.Second):
		p.t.Errorf("nothing came of order %d", id)
		return reply{What: "nothing"}
	}
}

// link is how one member of a cycle holds what the one before it waits for.
func link(rng *rand.Rand) (holds, waits order) {
	x, s := order{Permits: engine.Max, Limit: engine.Max}, order{Permits: 1, Limit: engine.Max}
	switch rng.IntN(4) {
	case 0:
		return x, x
	case 1:
		return x, s
	case 2:
		return s, x
	}
	limit := int32(1 + rng.IntN(3))
	holds = order{Permits: 1 + rng.Int32N(limit), Limit: limit}
	waits = order{Permits: limit - holds.Permits + 1 + rng.Int32N(holds.Permits), Limit: limit}
	return holds, waits
}

// closeCycle has some of ps hold a name each and wait for that of the next one. It
// returns who is in it and when the last began to wait.
func closeCycle(rng *rand.Rand, id int, ps []*process) (in []*process, closed time.Time) {
	in = slices.Clone(ps)
	rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	in = in[:2+rng.IntN(len(in)-1)]
	wait := make([]order, len(in))
	for i := range in {
		holds, waits := link(rng)
		name := fmt.Sprintf("circle%d-%d", id, i)
		holds.ID, holds.Do, holds.Name = id, "hold", name
		before := (i + len(in) - 1) % len(in)
		waits.ID, waits.Do, waits.Name = id, "wait", name
		wait[before] = waits
		in[i].say(holds)
	}
	for _, p := range in {
		if r := p.receive(id); r.What != "held" && r.What != "died" {
			p.t.Errorf("cycle %d: %s", id, r.What)
		}
	}
	for _, i := range rng.Perm(len(in)) {
		time.Sleep(time.Duration(rng.IntN(int(20 * time.Millisecond))))
		closed = time.Now()
		in[i].say(wait[i])
	}
	return in, closed
}

// outcome is what became of a cycle.
type outcome struct {
	in      []*process
	victims int
	shown   int // members of the cycle that the victim was shown
	lasted  time.Duration
	others  []string // neither victim nor granted
}

func await(id int, in []*process, closed time.Time) (o outcome) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	o.in = in
	for _, p := range in {
		wg.Go(func() {
			r := p.receive(id)
			at := time.Since(closed)
			mu.Lock()
			defer mu.Unlock()
			switch r.What {
			case "deadlock":
				o.victims, o.shown, o.lasted = o.victims+1, r.Cycle, at
			case "got":
			default:
				o.others = append(o.others, r.What)
			}
		})
	}
	wg.Wait()
	return o
}

// Each cycle has one victim, whatever its length and modes, and the others go on.
func TestCyclesOfProcessesAreBroken(t *testing.T) {
	beside(t)
	overAll(t, func(t *testing.T, url string) {
		const period = time.Second
		var ps []*process
		for range members {
			ps = append(ps, startMember(t, url, period))
		}
		var (
			mu     sync.Mutex
			wg     sync.WaitGroup
			lasted []time.Duration
			slots  = make(chan struct{}, 24) // at once
		)
		for id := range sized(*cycles) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				in, closed := closeCycle(rand.New(rand.NewPCG(uint64(id), 1)), id, ps)
				o := await(id, in, closed)
				mu.Lock()
				defer mu.Unlock()
				if o.victims != 1 || o.shown != len(in) || len(o.others) > 0 {
					t.Errorf("cycle %d of %d: %d victims, shown %d members, %q", id, len(in), o.victims, o.shown, o.others)
				}
				lasted = append(lasted, o.lasted)
			})
		}
		wg.Wait()
		slices.Sort(lasted)
		late := len(lasted) - 1
		for late >= 0 && lasted[late] > 2*period {
			late--
		}
		late = len(lasted) - 1 - late
		t.Logf("%d cycles, broken after %v to %v (median %v), %d after more than two periods of %v", len(lasted),
			lasted[0].Round(time.Millisecond), lasted[len(lasted)-1].Round(time.Millisecond), lasted[len(lasted)/2].Round(time.Millisecond), late, period)
		if *timed && late > 0 {
			t.Errorf("%d cycles lasted for more than two periods", late)
		}
	})
}

// Members are killed or stopped in the middle: never more than one victim, and
// nobody waits for ever.
func TestCyclesWithKilledAndStoppedMembersOpen(t *testing.T) {
	beside(t)
	overEngines(t, func(t *testing.T, url string) {
		const period, batch = time.Second, 12
		rng := rand.New(rand.NewPCG(1, 2))
		var ps []*process
		for range members {
			ps = append(ps, startMember(t, url, period))
		}
		victims, touched, total := 0, 0, 0
		for first := 0; first < *unlucky; first += batch {
			outcomes := make(chan outcome, batch)
			ready := sync.WaitGroup{}
			for i := range batch {
				seed := rand.New(rand.NewPCG(uint64(first+i), 3))
				ready.Add(1)
				go func() {
					in, closed := closeCycle(seed, first+i, ps)
					ready.Done()
					outcomes <- await(first+i, in, closed)
				}()
			}
			ready.Wait()
			time.Sleep(time.Duration(rng.IntN(int(3 * period / 2))))
			at := rng.IntN(len(ps))
			unlucky := ps[at]
			if rng.IntN(2) == 0 {
				unlucky.cmd.Process.Kill()
				ps[at] = startMember(t, url, period)
			} else {
				unlucky.cmd.Process.Signal(syscall.SIGSTOP)
				time.Sleep(time.Duration(rng.IntN(int(2 * memberTTL))))
				unlucky.cmd.Process.Signal(syscall.SIGCONT)
			}
			for range batch {
				o := <-outcomes
				hit := slices.Contains(o.in, unlucky)
				if total++; hit {
					touched++
				}
				victims += o.victims
				if o.victims > 1 || !hit && (o.victims != 1 || len(o.others) > 0) {
					t.Errorf("%d victims of a cycle of %d, hit: %v; %q", o.victims, len(o.in), hit, o.others)
				}
			}
		}
		t.Logf("%d cycles, %d of them with a killed or stopped member; %d victims", total, touched, victims)
		if touched == 0 {
			t.Error("void: nobody of a cycle was killed or stopped")
		}
	})
}

// Holders wait and wait, and never in a cycle: nobody is told that they do.
func TestWaitsWithoutACycleAreNoDeadlock(t *testing.T) {
	beside(t)
	overEngines(t, func(t *testing.T, url string) {
		const period = 2 * time.Millisecond
		var ps []*process
		for i := range members {
			p := startMember(t, url, period)
			p.say(order{ID: 0, Do: "storm", Seed: uint64(i), Waits: sized(*waits) / members})
			ps = append(ps, p)
		}
		all := 0
		for _, p := range ps {
			select {
			case r := <-p.answer(0):
				if all += r.Waits; r.What != "stormed" {
					t.Error(r.What)
				}
			case <-time.After(10 * time.Minute):
				t.Fatal("a storm does not end")
			}
		}
		t.Logf("%d waits of holders for more than %v, none of them a deadlock", all, period)
	})
}

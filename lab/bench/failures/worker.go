package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"leasehold"
	"leasehold/engines"
	"leasehold/lab/bench/harness"
)

// workerEnv makes this program one holder: its job as JSON.
const workerEnv = "LEASEHOLD_FAILURES_WORKER"

// job is what a worker does: lock every name, and work under each lease until it
// is lost or the worker is told to end.
type job struct {
	URL   string
	TTL   time.Duration
	Names []string
}

// think is how long a worker computes between what it read and what it writes, give
// or take a half: workers in step would all look at their leases when one is stopped.
const think = 20 * time.Millisecond

// said is a line of a worker. Times are CLOCK_MONOTONIC in nanoseconds, which all
// processes of a machine share.
type said struct {
	Kind  string // "asks", "holds", "reads", "writes", "lost", "fails"
	Name  string
	At    int64
	Until int64           // trusted until, of "holds", "reads" and "writes"; 0: no longer
	Token leasehold.Token // of the same
	Sum   [2]int          // of "writes": what the unfenced and the fenced resource are set to
	Why   string          // of "lost" and "fails"
}

// answer is what the resources answer to "reads" and "writes": their values.
type answer struct {
	Name string
	Sum  [2]int
}

// holder is the worker's side.
type holder struct {
	clock   *harness.Clock
	client  *leasehold.Client
	mu      sync.Mutex // of out
	out     *json.Encoder
	answers map[string]chan answer
	ending  atomic.Bool
}

func work() error {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	eng, err := engines.Open(ctx, j.URL)
	if err != nil {
		return err
	}
	client, err := leasehold.New(eng, &leasehold.Options{TTL: j.TTL})
	if err != nil {
		return err
	}
	h := &holder{clock: harness.NewClock(), client: client, out: json.NewEncoder(os.Stdout), answers: map[string]chan answer{}}
	for _, name := range j.Names {
		h.answers[name] = make(chan answer, 1)
	}
	var working sync.WaitGroup
	for _, name := range j.Names {
		working.Go(func() { h.one(ctx, name) })
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var a answer
		if err := in.Decode(&a); err != nil {
			break // told to end
		}
		h.answers[a.Name] <- a
	}
	h.ending.Store(true)
	cancel()
	for _, ch := range h.answers {
		close(ch)
	}
	working.Wait()
	return client.Close()
}

func (h *holder) say(s said) {
	s.At = h.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out.Encode(s) != nil {
		os.Exit(2) // nobody listens
	}
}

// one locks a name and works until the lease is over.
func (h *holder) one(ctx context.Context, name string) {
	h.say(said{Kind: "asks", Name: name})
	l, err := h.client.Lock(ctx, name)
	for err != nil {
		if ctx.Err() != nil {
			return
		}
		h.say(said{Kind: "fails", Name: name, Why: err.Error()})
		time.Sleep(100 * time.Millisecond)
		l, err = h.client.Lock(ctx, name)
	}
	say := func(kind string, sum [2]int) {
		s := said{Kind: kind, Name: name, Token: l.Token(), Sum: sum}
		now := h.clock.Now() // first: after a pause between the two it would be too late
		if left := l.Remaining(); left > 0 {
			s.Until = now + int64(left)
		}
		h.say(s)
	}
	say("holds", [2]int{})
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		<-l.Context().Done()
		if !h.ending.Load() {
			h.say(said{Kind: "lost", Name: name, Why: context.Cause(l.Context()).Error()})
		}
	}()
	defer func() {
		l.Unlock()
		<-notified
	}()
	for l.Valid() && ctx.Err() == nil {
		say("reads", [2]int{})
		a, open := <-h.answers[name]
		if !open {
			return
		}
		// This is where a process that is stopped loses its lease without knowing it.
		time.Sleep(think/2 + rand.N(think))
		say("writes", [2]int{a.Sum[0] + 1, a.Sum[1] + 1})
		if _, open := <-h.answers[name]; !open {
			return
		}
	}
}

// process is a worker, seen from outside.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan said
	errs *tail
}

// launch starts a worker. It dies with the stage.
func launch(s *stage, j job) *process {
	self, err := os.Executable()
	s.must(err)
	text, err := json.Marshal(j)
	s.must(err)
	p := &process{cmd: exec.Command(self), said: make(chan said, 1000), errs: &tail{}}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	s.must(err)
	p.in, err = p.cmd.StdinPipe()
	s.must(err)
	s.must(p.cmd.Start())
	go func() {
		defer close(p.said)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var line said
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				p.said <- line
			}
		}
	}()
	s.Cleanup(func() {
		p.cmd.Process.Kill()
		for range p.said {
		}
		p.cmd.Wait()
	})
	return p
}

func (p *process) notify(a answer) {
	if text, err := json.Marshal(a); err == nil {
		fmt.Fprintf(p.in, "%s\n", text) // a worker that was killed hears nothing
	}
}

// end has the worker unlock what it holds and end.
func (p *process) end() { p.in.Close() }

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - 1000; over > 0 {
		t.text = t.text[over:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

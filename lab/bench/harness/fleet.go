package harness

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Run is one load on one competitor.
type Run struct {
	Suite      string
	Competitor Competitor
	At         Endpoint
	Procs      int
	Load       Load
	Warm       time.Duration
	Window     time.Duration

	// NoDrain cuts the load off at the end of its window: nobody is expected
	// to obtain anything.
	NoDrain bool

	// Ready is called when every worker stands and none has begun; Began when
	// the window begins, Ended when it ends.
	Ready func()
	Began func()
	Ended func()
}

// Outcome is what all workers of a run answered together.
type Outcome struct {
	Result
	Window   time.Duration
	Granted  int64 // locks granted inside the window, as the bench saw it
	Overlaps int   // holds that overlapped: broken exclusion
	LostUpd  int64 // increments of the shared counters that vanished
	Silent   int   // workers that never answered and were killed
}

// Broken says whether exclusion was seen to fail.
func (o *Outcome) Broken() bool { return o.Overlaps > 0 || o.LostUpd != 0 }

// Fleet is the worker processes of one run.
type Fleet struct {
	Arena   *Arena
	Clock   *Clock
	workers []*process
}

type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
	answer chan Result // closed without an answer if the worker died
	killed bool
}

// names are the shared names of a run.
func (l Load) names() []string {
	var names []string
	for i := range l.Names {
		names = append(names, fmt.Sprintf("bench:%d", i))
	}
	return names
}

// Launch starts the workers of a run and waits until all have opened their
// clients. Dismiss must follow.
func Launch(ctx context.Context, r Run) (f *Fleet, err error) {
	names := r.Load.names()
	if r.Competitor.Prepare != nil {
		if err := r.Competitor.Prepare(ctx, r.At, names); err != nil {
			return nil, fmt.Errorf("%s: prepare: %w", r.Competitor.Name, err)
		}
	}
	f = &Fleet{Clock: NewClock()}
	defer func() {
		if err != nil {
			f.Dismiss()
		}
	}()
	if f.Arena, err = NewArena(r.Load.slots(r.Procs)); err != nil {
		return f, err
	}
	for i := range r.Procs {
		if err := f.start(Job{
			Suite: r.Suite, Competitor: r.Competitor.Name, Process: i, Processes: r.Procs, Arena: f.Arena.path,
			At: r.At, Load: r.Load, Names: names,
		}); err != nil {
			return f, err
		}
	}
	return f, f.ready(r.Competitor.Name)
}

func (f *Fleet) start(job Job) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{cmd: exec.Command(self), answer: make(chan Result, 1)}
	p.cmd.Env = append(os.Environ(), WorkerEnv+"=1")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = bufio.NewReader(out)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.workers = append(f.workers, p)
	return json.NewEncoder(p.in).Encode(job) // Encode ends with the newline
}

func (f *Fleet) ready(competitor string) error {
	timeout := time.AfterFunc(startBound, func() {
		for _, p := range f.workers {
			p.cmd.Process.Kill()
		}
	})
	defer timeout.Stop()
	for _, p := range f.workers {
		line, err := p.out.ReadString('\n')
		switch {
		case line == "ready\n":
		case line == "failed\n":
			var r Result
			if err := gob.NewDecoder(p.out).Decode(&r); err != nil {
				return err
			}
			return fmt.Errorf("%s: %s", competitor, r.Cause)
		default:
			p.cmd.Process.Kill()
			p.cmd.Wait()
			return fmt.Errorf("%s: a worker ended before it was ready: %v\n%s", competitor, err, tail(p.stderr.String()))
		}
	}
	return nil
}

// Go lets all workers begin. From then on each reads its own answer.
func (f *Fleet) Go() error {
	for _, p := range f.workers {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return err
		}
		go func() {
			defer close(p.answer)
			if line, err := p.out.ReadString('\n'); err != nil || line != "done\n" {
				return
			}
			var r Result
			if gob.NewDecoder(p.out).Decode(&r) == nil {
				p.answer <- r
			}
		}()
	}
	return nil
}

// Window sets the window that counts.
func (f *Fleet) Window(warm, window time.Duration) (from, to int64) {
	from = f.Clock.Now() + int64(warm)
	to = from + int64(window)
	c := f.Arena.Control()
	c.To.Store(to)
	c.From.Store(from)
	return from, to
}

// Grants is how many locks all workers were granted so far, and how many of
// their goroutines still run.
func (f *Fleet) Grants() (grants, running, kept int64) {
	for i := range f.workers {
		p := f.Arena.Process(i)
		grants += p.Grants.Load()
		running += p.Running.Load()
		kept += p.Idle.Load()
	}
	return grants, running, kept
}

// Kill ends one worker with SIGKILL.
func (f *Fleet) Kill(i int) error {
	f.workers[i].killed = true
	return f.workers[i].cmd.Process.Kill()
}

// Drain waits until everybody has stopped, or nobody is granted anything for
// Silence, or the bound has passed.
func (f *Fleet) Drain(bound time.Duration) {
	end := time.Now().Add(bound)
	last, _, _ := f.Grants()
	received := time.Now()
	for {
		grants, running, _ := f.Grants()
		if grants != last {
			last, received = grants, time.Now()
		}
		switch {
		case running <= 0:
			return
		case time.Since(received) > Silence:
			f.Arena.Control().Verdict.Store(stuck)
			return
		case time.Now().After(end):
			f.Arena.Control().Verdict.Store(cut)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Results collects the answers and kills whoever does not give one. A worker
// that was killed on purpose is not missed.
func (f *Fleet) Results() (all []Result, silent int) {
	deadline := time.After(answerBound)
	for _, p := range f.workers {
		if p.killed {
			continue
		}
		select {
		case r, ok := <-p.answer:
			if ok {
				all = append(all, r)
				continue
			}
		case <-deadline:
		}
		silent++
		p.cmd.Process.Kill()
		p.cmd.Wait() // what it wrote to stderr is complete now
	}
	return all, silent
}

// Dismiss ends what is left of the workers and removes the arena.
func (f *Fleet) Dismiss() {
	for _, p := range f.workers {
		p.in.Close() // a worker ends with its stdin
	}
	for _, p := range f.workers {
		timeout := time.AfterFunc(deafBound, func() { p.cmd.Process.Kill() })
		p.cmd.Wait()
		timeout.Stop()
	}
	if f.Arena != nil {
		f.Arena.Remove()
	}
}

func (f *Fleet) stderr() string {
	for _, p := range f.workers {
		if s := p.stderr.String(); s != "" {
			return s
		}
	}
	return ""
}

// Measure runs a load from beginning to end.
func Measure(ctx context.Context, r Run) (*Outcome, error) {
	f, err := Launch(ctx, r)
	if err != nil {
		return nil, err
	}
	defer f.Dismiss()
	if r.Ready != nil {
		r.Ready()
	}
	if r.Load.Kind != IdleTimeout {
		f.Window(r.Warm, r.Window)
	}
	if err := f.Go(); err != nil {
		return nil, err
	}
	if r.Load.Kind == IdleTimeout {
		if err := f.awaitIdle(ctx, r.Procs); err != nil {
			return nil, err
		}
		f.Window(r.Warm, r.Window)
	}
	control := f.Arena.Control()
	if err := f.sleepUntil(ctx, control.From.Load()); err != nil {
		return nil, err
	}
	began := f.Clock.Now()
	before, _, _ := f.Grants()
	if r.Began != nil {
		r.Began()
	}
	if r.Load.Pairs > 0 && r.Load.Kind == Cycle {
		f.Drain(r.Window) // as long as somebody is granted something
	} else if err := f.sleepUntil(ctx, control.To.Load()); err != nil {
		return nil, err
	}
	window := time.Duration(f.Clock.Now() - began)
	after, _, _ := f.Grants()
	if r.Ended != nil {
		r.Ended()
	}
	switch {
	case r.NoDrain:
		control.Verdict.Store(cut)
	case r.Load.Pairs == 0 || r.Load.Kind != Cycle:
		f.Drain(drainBound)
	}
	results, silent := f.Results()
	o := combine(results)
	o.Window, o.Granted, o.Silent = window, after-before, silent
	if silent > 0 && o.Cause == "" {
		o.Cause = tail(f.stderr())
	}
	f.check(o, r.Load, silent > 0 || o.Deaf > 0)
	return o, ctx.Err()
}

func (f *Fleet) awaitIdle(ctx context.Context, procs int) error {
	end := time.Now().Add(startBound)
	for {
		grants, _, kept := f.Grants()
		if kept == int64(procs) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d locks were obtained within %v", grants, startBound)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *Fleet) sleepUntil(ctx context.Context, then int64) error {
	select {
	case <-time.After(f.Clock.Until(then)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func combine(results []Result) *Outcome {
	o := &Outcome{Result: Result{Calls: map[string]int64{}}}
	for _, r := range results {
		o.Served = append(o.Served, r.Served...)
		o.Latency = append(o.Latency, r.Latency...)
		o.Holds = append(o.Holds, r.Holds...)
		o.Grants = append(o.Grants, r.Grants...)
		o.Pairs += r.Pairs
		o.Changes += r.Changes
		o.GaveUp += r.GaveUp
		o.Errors += r.Errors
		o.Stuck += r.Stuck
		o.Stalled += r.Stalled
		o.Deaf += r.Deaf
		o.Cut += r.Cut
		o.Lost += r.Lost
		o.Failed += r.Failed
		o.CPU += r.CPU
		o.Bytes += r.Bytes
		for i, n := range r.Wrote {
			if i == len(o.Wrote) {
				o.Wrote = append(o.Wrote, 0)
			}
			o.Wrote[i] += n
		}
		for name, n := range r.Calls {
			o.Calls[name] += n
		}
		if o.Cause == "" {
			o.Cause = r.Cause
		}
	}
	slices.Sort(o.Latency)
	return o
}

// check looks for broken exclusion. Workers that did not answer may have
// incremented what they could not tell of, so the counters prove nothing then.
func (f *Fleet) check(o *Outcome, l Load, indeterminate bool) {
	o.Overlaps = Sweep(o.Holds, l.limit())
	if indeterminate {
		return
	}
	for i, n := range o.Wrote {
		if diff := n - f.Arena.Name(i).Counter; diff != 0 {
			o.LostUpd += max(diff, -diff)
		}
	}
}

func tail(s string) string {
	const most = 600
	if s = strings.TrimSpace(s); len(s) > most {
		s = "..." + s[len(s)-most:]
	}
	return s
}

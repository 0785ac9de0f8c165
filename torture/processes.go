package torture

import (
	"context"
	"io"
	"os"
	"runtime"
	"time"

	"leasehold/internal/child"
)

// Kill kills a client. Another one takes its place.
func Kill() Nemesis { return kill{} }

type kill struct{}

func (kill) Name() string { return "kill" }

func (kill) Strike(ctx context.Context, s *Strike) error {
	c := s.victim()
	if c == nil {
		return nil
	}
	s.Begin(c.name, "")
	s.w.mu.Lock()
	c.ending = true // its end is no failure
	s.w.mu.Unlock()
	c.process.Kill()
	// What it had begun when its last line was read.
	if holds, calls := c.busy(); holds+calls > 0 {
		s.Bit("it died with %d leases and %d calls under way", holds, calls)
	}
	return nil
}

// Stop stops a client, as a pause of its machine would (SIGSTOP), and lets it go on.
func Stop() Nemesis { return stop{} }

type stop struct{}

func (stop) Name() string { return "stop" }

func (stop) Strike(ctx context.Context, s *Strike) error {
	c := s.victim()
	if c == nil {
		return nil
	}
	return s.pause(ctx, []*client{c}, c.process.Halt, c.process.Proceed)
}

// Hog takes the processors from the clients: it runs four busy processes for each.
func Hog() Nemesis { return hog{} }

type hog struct{}

func (hog) Name() string { return "hog" }

// late is how much longer than usual a client takes to answer when it has to wait for a
// processor.
const late = 20 * time.Millisecond

func (hog) Strike(ctx context.Context, s *Strike) error {
	c := s.victim()
	if c == nil {
		return nil
	}
	before := answering(ctx, c, s.TTL)
	n := 4 * runtime.GOMAXPROCS(0)
	s.Begin("", "every processor")
	var all []*child.Process
	defer func() {
		for _, p := range all {
			p.Kill()
		}
	}()
	for range n {
		p, err := child.Start(nil, []string{role + "=" + roleHog}, func(string) {})
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	lasting, over := context.WithCancel(ctx)
	defer over()
	slowest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for lasting.Err() == nil {
			most = max(most, answering(lasting, c, s.TTL))
			wait(lasting, late)
		}
		slowest <- most
	}()
	s.Last(ctx)
	over()
	if most := <-slowest; most > before+late {
		s.Bit("client %s answered after %v, and after %v before", c.name, most.Round(time.Millisecond), before.Round(time.Millisecond))
	}
	return nil
}

// answering is how long a client takes to answer, at most as long as that.
func answering(ctx context.Context, c *client, most time.Duration) time.Duration {
	began := time.Now()
	pong := c.ping()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-pong:
	case <-c.process.Ended():
	case <-ctx.Done():
	}
	return time.Since(began)
}

// beHog keeps a processor busy until the parent is gone, which kills it before.
func beHog() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		runtime.Gosched()
	}
}

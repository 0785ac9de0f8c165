package torture

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Freeze freezes a client, or all clients at once, as a pause of their machine would, and
// lets them go on. Unlike [Stop] it also freezes what a client has started, and tells
// nobody. It needs cgroup v2 of Linux 5.2 or newer, and root or a delegated group.
func Freeze() Nemesis { return &freezer{} }

type freezer struct{ groups *groups }

func (*freezer) Name() string { return "freeze" }

func (n *freezer) Prepare(_ context.Context, g *Ground) (err error) {
	n.groups, err = g.inGroups()
	return err
}

func (n *freezer) Strike(ctx context.Context, s *Strike) error {
	hit := s.oneOrAll()
	if len(hit) == 0 {
		return nil
	}
	dir := n.groups.of(hit)
	return s.pause(ctx, hit, func() error { return freeze(ctx, dir) }, func() error { return thaw(dir) })
}

// oneOrAll is a client, or all of them. It is empty if none runs.
func (s *Strike) oneOrAll() []*client {
	if s.Rand.IntN(2) == 0 {
		return s.w.running()
	}
	if c := s.victim(); c != nil {
		return []*client{c}
	}
	return nil
}

// begin is Begin for some clients.
func (s *Strike) begin(hit []*client, what string) {
	if len(hit) == 1 {
		s.Begin(hit[0].name, what)
		return
	}
	if what != "" {
		what = ", " + what
	}
	s.Begin("", fmt.Sprintf("all %d clients%s", len(hit), what))
}

// pause has clients stand still for a while. It has had an effect if one of them held
// something or was in a call, and did not answer.
func (s *Strike) pause(ctx context.Context, hit []*client, halt, proceed func() error) (err error) {
	s.begin(hit, "")
	defer func() {
		s.Heal() // before they go on
		err = errors.Join(err, proceed())
	}()
	if err := halt(); err != nil {
		return err
	}
	// A client that runs answers within far less than this. One that answers late has
	// only been slow.
	wait(ctx, 10*time.Millisecond)
	type asked struct {
		holds, calls int
		pong         <-chan struct{}
	}
	var all []asked
	for _, c := range hit {
		holds, calls := c.busy()
		all = append(all, asked{holds, calls, c.ping()})
	}
	s.Last(ctx)
	silent, holds, calls := 0, 0, 0
	for _, a := range all {
		select {
		case <-a.pong:
		default:
			silent, holds, calls = silent+1, holds+a.holds, calls+a.calls
		}
	}
	if holds+calls > 0 {
		s.Bit("%d of %d did not answer, with %d leases and %d calls under way", silent, len(hit), holds, calls)
	}
	return nil
}

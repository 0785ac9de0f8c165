package filelock

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"
)

// excludeRole locks and unlocks one name until it is killed, and says when it
// held. A hold is printed when it begins, so that one whose process is killed
// is known too.
func excludeRole(args []string) error {
	seed, _ := strconv.ParseUint(args[1], 10, 64)
	rnd := rand.New(rand.NewPCG(seed, 1))
	e, err := New(args[0], &Options{patience: brief, idle: 1})
	if err != nil {
		return err
	}
	ctx := context.Background()
	held := make(chan engine.ID, 64)
	go e.Watch(ctx, func(c engine.Claim) {
		if c.State == engine.Held {
			select {
			case held <- c.ID:
			default:
			}
		}
	})
	for {
		r := engine.Request{Name: "one", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max,
			WaitTTL: time.Minute, NoWait: rnd.IntN(4) == 0}
		c, err := e.Join(ctx, r)
		if err != nil {
			return err
		}
		for c.State == engine.Waiting {
			select {
			case id := <-held:
				if id == r.ID {
					c.State = engine.Held
				}
			case <-time.After(time.Second):
				cs, err := e.Renew(ctx, []engine.Renewal{{Name: r.Name, ID: r.ID, Want: time.Minute}})
				if err != nil {
					return err
				}
				c = cs[0]
			}
			if rnd.IntN(20) == 0 && c.State == engine.Waiting {
				break // a caller that gives up
			}
		}
		if c.State == engine.Held {
			fmt.Printf("%d %d +\n", monotonic(), c.Ticket)
			time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
			fmt.Printf("%d %d -\n", monotonic(), c.Ticket)
		}
		if _, err := e.Leave(ctx, []engine.Claim{c}); err != nil {
			return err
		}
		if rnd.IntN(3) == 0 {
			time.Sleep(time.Duration(rnd.IntN(500)) * time.Microsecond)
		}
	}
}

// Processes lock one name while some are killed and others stopped and
// continued, all at random moments, and everybody sweeps: no two hold at once,
// and tickets rise with time.
func TestExclusionUnderKills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	type event struct {
		at     time.Duration
		ticket uint64
		begins bool
	}
	events := make(chan event, 1<<20)
	killed := map[uint64]time.Duration{} // when the process of a ticket was killed, at the latest
	type proc struct {
		pid  int
		last chan uint64 // tickets it held, closed with its output
	}
	seed := rand.Uint64N(1 << 32)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	launch := func() proc {
		seed++
		cmd, _, out := start(t, "exclude", dir, strconv.FormatUint(seed, 10))
		p := proc{cmd.Process.Pid, make(chan uint64, 1)}
		go func() {
			last := uint64(0)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var at int64
				var ticket uint64
				var what string
				if n, _ := fmt.Sscan(lines.Text(), &at, &ticket, &what); n == 3 {
					events <- event{time.Duration(at), ticket, what == "+"}
					last = ticket
				}
			}
			p.last <- last
		}()
		return p
	}
	procs := []proc{launch(), launch(), launch(), launch()}
	kill := func(p proc) {
		at := monotonic()
		_ = unix.Kill(p.pid, unix.SIGKILL)
		killed[<-p.last] = at
	}
	kills, stops := 0, 0
	const enoughHolds, enoughKills = 100, 10
	for begin := time.Now(); time.Since(begin) < 4*time.Second ||
		(kills < enoughKills || len(events) < 2*enoughHolds) && time.Since(begin) < patient; {
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
		i := rnd.IntN(len(procs))
		if rnd.IntN(3) == 0 {
			_ = unix.Kill(procs[i].pid, unix.SIGSTOP)
			time.Sleep(time.Duration(rnd.IntN(int(2 * brief))))
			_ = unix.Kill(procs[i].pid, unix.SIGCONT)
			stops++
		} else {
			kill(procs[i])
			procs[i] = launch()
			kills++
		}
	}
	for _, p := range procs {
		kill(p)
	}
	close(events)

	type hold struct {
		ticket     uint64
		begin, end time.Duration
	}
	holds := map[uint64]*hold{}
	for ev := range events {
		h := holds[ev.ticket]
		if h == nil {
			h = &hold{ticket: ev.ticket}
			holds[ev.ticket] = h
		}
		switch {
		case ev.begins && h.begin != 0:
			t.Fatalf("ticket %d was given twice", ev.ticket)
		case ev.begins:
			h.begin = ev.at
		default:
			h.end = ev.at
		}
	}
	var all []*hold
	for _, h := range holds {
		if h.end == 0 {
			if h.end = killed[h.ticket]; h.end < h.begin {
				h.end = h.begin
			}
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *hold) int { return int(a.begin - b.begin) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if b.begin < a.end {
			t.Errorf("tickets %d and %d held at once, for %v", a.ticket, b.ticket, a.end-b.begin)
		}
		if b.ticket <= a.ticket {
			t.Errorf("ticket %d held after %d", b.ticket, a.ticket)
		}
	}
	t.Logf("%d holds, %d kills, %d stops", len(all), kills, stops)
	if len(all) < enoughHolds || kills < enoughKills {
		t.Errorf("only %d holds and %d kills: nothing was tested", len(all), kills)
	}
}

// A holder is killed. Whoever is next, and nobody else, is told by that and not by a
// look that was due: nobody renews here, and what sweeps does so once a minute. The least
// of several rounds tells, since any other may meet a busy machine.
func TestKilledHolderIsReplacedAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	next, err := New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	notifications := make(chan engine.Claim, 64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = next.Watch(ctx, func(c engine.Claim) { notifications <- c })
	}()
	<-notifications // it has begun
	var took []time.Duration
	for round := range 9 {
		name := fmt.Sprintf("name %d", round)
		victim := newRemote(t, dir)
		first := victim.do("join", name, engine.NewID())
		if first.State != engine.Held {
			t.Fatalf("the holder is %v", first.State)
		}
		var ids []engine.ID
		for range 3 {
			r := engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
			if c, err := next.Join(ctx, r); err != nil || c.State != engine.Waiting {
				t.Fatal(c, err)
			}
			ids = append(ids, r.ID)
		}
		begin := time.Now()
		victim.signal(unix.SIGKILL)
		for notified := false; !notified; {
			select {
			case c := <-notifications:
				if notified = c.Name == name; notified && (c.ID != ids[0] || c.State != engine.Held) {
					t.Fatalf("told was not the first in the queue but number %d: %+v", slices.Index(ids, c.ID), c)
				}
			case <-time.After(patient):
				t.Fatal("nobody was told that the holder is dead")
			}
		}
		took = append(took, time.Since(begin))
		for _, id := range ids {
			if _, err := next.Leave(ctx, []engine.Claim{{Name: name, ID: id}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.Sort(took)
	t.Logf("replaced after %v", took)
	if least := took[0]; least > 500*time.Millisecond {
		t.Errorf("a killed holder was replaced after %v at the earliest", least)
	}
	cancel()
	<-ended
}

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// chaos is an engine on a bad network: notifications are duplicated, delayed and reordered; Joins arrive a second time, late.
type chaos struct {
	*faulty
	s    *storm
	dups bool
}

func (c *chaos) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if c.dups && c.s.n(10) == 0 {
		d := c.s.dur(8 * time.Second)
		go func() {
			time.Sleep(d)
			c.faulty.Engine.Join(context.Background(), r)
		}()
	}
	return c.faulty.Join(ctx, r)
}

func (c *chaos) Watch(ctx context.Context, changed func(engine.Claim)) error {
	var mu sync.Mutex // "called from one goroutine": one at a time
	deliver := func(cl engine.Claim) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			changed(cl)
		}
	}
	return c.faulty.Watch(ctx, func(cl engine.Claim) {
		for range 1 + c.s.n(2) {
			if d := c.s.dur(3 * time.Second); c.s.n(3) == 0 {
				go func() { time.Sleep(d); deliver(cl) }()
			} else {
				deliver(cl)
			}
		}
		if c.s.n(50) == 0 {
			deliver(engine.Claim{})
		}
	})
}

type proc struct {
	mu sync.Mutex
	c  *Client
	f  *faulty
}

// TestStormOfProcesses is TestStorm with processes that crash, close and begin
// anew, with several names at once, re-entering, handing over and MinHold.
func TestStormOfProcesses(t *testing.T) {
	for seed := range *storms {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(w *world) {
				s := &storm{t: t, w: w, rng: rand.New(rand.NewPCG(uint64(seed), 7)), held: map[string][]*Lease{}, last: map[string]Token{}}
				s.processes()
				if s.grant < 200 || s.lost == 0 {
					t.Errorf("void: %d grants, %d losses", s.grant, s.lost)
				}
			})
		})
	}
}

func (s *storm) proc(i int) (*Client, *faulty) {
	f := &faulty{Engine: s.w.store.Engine()}
	o := &Options{TTL: 3 * time.Second, Label: fmt.Sprint("client ", i), IdleTimeout: time.Duration(i%2) * time.Second}
	if i%4 == 3 {
		o.NoLocalHandoff = true
	}
	c, err := New(s.w.timed(&chaos{faulty: f, s: s, dups: true}), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.weather(f)
	return c, f
}

func (s *storm) processes() {
	const ttl = 3 * time.Second
	names := []string{"a", "b", "c", "sem"}
	procs := make([]*proc, 4)
	for i := range procs {
		procs[i] = &proc{}
		procs[i].c, procs[i].f = s.proc(i)
	}
	get := func(i int) *Client {
		p := procs[i%len(procs)]
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.c
	}
	end := time.Now().Add(5 * time.Minute)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for time.Now().Before(end) {
				c := get(i)
				ctx, cancel := context.WithTimeout(context.Background(), s.dur(20*time.Second))
				hold := s.dur(200 * time.Millisecond)
				if s.n(20) == 0 {
					hold = s.dur(3 * ttl)
				}
				switch s.n(8) {
				case 0: // several
					all, err := c.LockAll(ctx, names[s.n(3)], names[s.n(3)])
					if err == nil {
						for _, l := range all.leases {
							s.granted(l)
						}
						time.Sleep(hold)
						valid := all.Valid()
						for _, l := range all.leases {
							s.forget(l)
						}
						if err := all.Unlock(); !valid && err == nil {
							s.t.Errorf("LockAll: nil of what was not valid")
						}
					}
				case 1: // hand over
					var h Handle
					l, err := c.With(LockOptions{Detached: true}).Lock(ctx, names[s.n(3)])
					if err == nil {
						s.granted(l)
						time.Sleep(hold)
						s.forget(l)
						h, _ = l.Detach() // with an error, but a handle, if that is good
						if h == "" {
							l.Unlock()
						}
					}
					if h != "" {
						time.Sleep(s.dur(time.Second))
						l, err := get(i+1).Adopt(ctx, h)
						if err == nil {
							s.mu.Lock()
							s.last[l.name] = 0 // same token
							s.mu.Unlock()
							s.granted(l)
							time.Sleep(hold)
							s.release(l)
						}
					}
				case 2: // re-enter, and another name under it in order
					l, err := c.Lock(ctx, "a")
					if err == nil {
						s.granted(l)
						sub, stop := context.WithTimeout(l.Context(), s.dur(3*time.Second))
						l2, err2 := c.Lock(sub, "a")
						l3, err3 := s.obtain(sub, c, []string{"b", "c"}[s.n(2)])
						if err3 == nil {
							s.granted(l3)
						}
						time.Sleep(hold)
						if err3 == nil {
							s.release(l3)
						}
						if err2 == nil {
							if e := l2.Unlock(); e != nil && !errors.Is(e, ErrLost) && !errors.Is(e, ErrClosed) && !errors.Is(e, ErrUnknown) {
								s.t.Error(e)
							}
						}
						s.release(l)
						stop()
					}
				case 3:
					l, err := c.With(LockOptions{MinHold: s.dur(2 * time.Second)}).Lock(ctx, names[s.n(3)])
					if err == nil {
						s.granted(l)
						time.Sleep(hold)
						s.release(l)
					}
				default:
					l, err := s.obtain(ctx, c, names[s.n(len(names))])
					if err == nil {
						s.granted(l)
						time.Sleep(hold)
						s.release(l)
					}
				}
				cancel()
				time.Sleep(s.dur(100 * time.Millisecond))
			}
		})
	}
	var graves []*Client
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(5 * time.Second)
			p := procs[s.n(len(procs))]
			s.weather(p.f)
			if queue, err := procs[0].f.Engine.Queue(context.Background(), "a"); err == nil && len(queue.Claims) > 0 && s.n(3) == 0 {
				get(0).Revoke(context.Background(), "a", queue.Claims[s.n(len(queue.Claims))].Ticket)
			}
			switch s.n(12) {
			case 0: // closed in the middle, and a new one
				p.mu.Lock()
				old := p.c
				p.c, p.f = s.proc(s.n(4))
				p.mu.Unlock()
				wg.Go(func() { old.Close() })
			case 1: // "crash": nothing arrives any more; all it holds runs out
				p.mu.Lock()
				old, oldf := p.c, p.f
				p.c, p.f = s.proc(s.n(4))
				p.mu.Unlock()
				oldf.set(func(f *faulty) {
					f.deaf = true
					f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
						<-ctx.Done()
						return engine.Claim{}, errCut
					}
					f.renew, f.leave = hangRenew, func(ctx context.Context, _ []engine.Claim, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
						<-ctx.Done()
						return nil, errCut
					}
				})
				s.mu.Lock()
				graves = append(graves, old)
				s.mu.Unlock()
			}
		}
	})
	wg.Wait()
	for _, c := range graves {
		c.Close()
	}
	for _, p := range procs {
		p.f.set(func(f *faulty) { f.join, f.renew, f.leave, f.deaf = nil, nil, nil, false })
	}
	start := s.w.clock()
	for _, name := range names[:3] {
		l, err := procs[0].c.With(LockOptions{Wait: time.Hour}).Lock(context.Background(), name)
		if err != nil {
			for i, p := range procs {
				s.t.Logf("client %d: %s", i, p.c.core.state())
			}
			s.t.Errorf("never granted after healing: %v", err)
			return
		}
		l.Unlock()
	}
	if d := s.w.clock() - start; d > 5*ttl+2*time.Second {
		s.t.Errorf("granted %v after healing", d)
	}
	time.Sleep(10 * ttl)
	synctest.Wait()
	for _, name := range names {
		s.w.wantQueue(name, nil, nil)
	}
	for i, p := range procs {
		if left := p.c.core.leftovers(); left != "" {
			s.t.Errorf("client %d still has %s", i, left)
		}
		p.c.Close()
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"leasehold"
	"leasehold/engines"
)

// use is what the used server sees.
type use struct {
	Pairs, Names, Leases, Behind int
	Held                         time.Duration
}

// row is what one engine showed. Each ratio is the median pair of the used server by that
// of a fresh one, measured in turns.
type row struct {
	name                   string
	fresh                  time.Duration // the median pair of the fresh server, all turns together
	pairs, names, renewals float64
	behind, contended      float64 // 0: no database; contended is of hand-overs between two
	bytesBefore, bytes     int64
}

// site is a server of its own with a client, and with another while two contend.
type site struct {
	*running
	locks, other *leasehold.Client
}

func open(ctx context.Context, s store) (_ *site, err error) {
	at := &site{}
	if at.running, err = s.start(); err != nil {
		return nil, err
	}
	if at.locks, err = connect(ctx, at.url); err != nil {
		return nil, errors.Join(err, at.close())
	}
	return at, nil
}

func connect(ctx context.Context, url string) (*leasehold.Client, error) {
	eng, err := engines.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return leasehold.New(eng, nil)
}

func (at *site) Close() (err error) {
	if at.other != nil {
		err = at.other.Close()
	}
	return errors.Join(err, at.locks.Close(), at.close())
}

const busy = "busy" // the one name that is locked again and again

// pair is one lock and unlock.
func (at *site) pair(ctx context.Context, name string) (time.Duration, error) {
	return pair(ctx, at.locks, name)
}

func pair(ctx context.Context, locks *leasehold.Client, name string) (time.Duration, error) {
	began := time.Now()
	l, err := locks.Lock(ctx, name)
	if err == nil {
		err = l.Unlock()
	}
	return time.Since(began), err
}

func grow(ctx context.Context, s store, u use) (r row, err error) {
	fresh, err := open(ctx, s)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	used, err := open(ctx, s)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, used.Close()) }()

	c := &comparison{ctx: ctx, used: used, fresh: fresh}
	c.ratio() // both are warm then
	r.name = s.name
	if r.bytesBefore, err = used.bytes(); err != nil {
		return r, err
	}
	for range u.Pairs {
		if _, err := used.pair(ctx, busy); err != nil {
			return r, err
		}
	}
	r.pairs = c.ratio()
	if err := used.each(ctx, u.Names); err != nil {
		return r, err
	}
	r.names = c.ratio()
	if err := used.hold(ctx, u.Leases, u.Held); err != nil {
		return r, err
	}
	r.renewals = c.ratio()
	if r.bytes, err = used.bytes(); err != nil {
		return r, err
	}
	if used.keep != nil {
		for _, at := range []*site{used, fresh} {
			if at.other, err = connect(ctx, at.url); err != nil {
				return r, err
			}
		}
		open, err := used.keep()
		if err != nil {
			return r, err
		}
		for range u.Behind / 2 {
			if _, err := used.pair(ctx, busy); err != nil {
				return r, errors.Join(err, open.Close())
			}
		}
		_, err = used.contend(ctx, u.Behind-u.Behind/2)
		if err == nil {
			err = open.counted()
		}
		if err != nil {
			return r, errors.Join(err, open.Close())
		}
		r.behind = c.ratio()
		r.contended = c.contended()
		if err := open.Close(); err != nil {
			return r, err
		}
	}
	slices.Sort(c.pairs)
	r.fresh = c.pairs[len(c.pairs)/2]
	return r, c.err
}

// each locks so many names once, 64 at a time.
func (at *site) each(ctx context.Context, names int) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil {
				n := next.Add(1)
				if n > int64(names) {
					return
				}
				_, errs[i] = at.pair(ctx, "name:"+strconv.FormatInt(n, 10))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// contend locks and unlocks the busy name so many times, by both clients at once.
func (at *site) contend(ctx context.Context, pairs int) (time.Duration, error) {
	var all sync.WaitGroup
	errs := make([]error, 2)
	began := time.Now()
	for i, locks := range []*leasehold.Client{at.locks, at.other} {
		all.Go(func() {
			for range pairs / len(errs) {
				if _, errs[i] = pair(ctx, locks, busy); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(began), errors.Join(errs...)
}

// hold holds so many leases for a while.
func (at *site) hold(ctx context.Context, leases int, d time.Duration) error {
	locks := at.locks.With(leasehold.LockOptions{TTL: 3 * time.Second})
	var held []*leasehold.Lease
	for i := range leases {
		l, err := locks.Lock(ctx, fmt.Sprint("held:", i))
		if err != nil {
			return err
		}
		held = append(held, l)
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	var errs []error
	for _, l := range held {
		errs = append(errs, l.Unlock())
	}
	return errors.Join(errs...)
}

// comparison is of two servers in turns: what else the machine does hits both.
type comparison struct {
	ctx         context.Context
	used, fresh *site
	pairs       []time.Duration // of the fresh one
	err         error           // the first
}

const turns, perTurn = 20, 50

// ratio is the median, over the turns, of the median pairs.
func (c *comparison) ratio() float64 {
	var ratios []float64
	for range turns {
		used, fresh := c.median(c.used), c.median(c.fresh)
		ratios = append(ratios, float64(used)/float64(fresh))
		c.pairs = append(c.pairs, fresh)
	}
	slices.Sort(ratios)
	return ratios[turns/2]
}

// contended is the median, over the turns, of what the same hand-overs take.
func (c *comparison) contended() float64 {
	var ratios []float64
	for range turns {
		used, err := c.used.contend(c.ctx, perTurn)
		fresh, err2 := c.fresh.contend(c.ctx, perTurn)
		if c.err == nil {
			c.err = errors.Join(err, err2)
		}
		ratios = append(ratios, float64(used)/float64(fresh))
	}
	slices.Sort(ratios)
	return ratios[turns/2]
}

func (c *comparison) median(at *site) time.Duration {
	took := make([]time.Duration, perTurn)
	for i := range took {
		d, err := at.pair(c.ctx, busy)
		if c.err == nil {
			c.err = err
		}
		took[i] = d
	}
	slices.Sort(took)
	return took[perTurn/2]
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/history"
)

// fault is one that comes to the private servers of a trial.
type fault struct {
	name   string
	breaks []string

	// strike does it, and returns how it ends. effect says what it did, if there is
	// something to ask; else failing calls show it.
	strike func(*rand.Rand) (heal func() error, err error)
	effect func() (string, error)
}

var _ torture.Nemesis = fault{}

func (f fault) Name() string { return f.name }

func (f fault) Strike(ctx context.Context, s *torture.Strike) error {
	before := s.Trouble()
	s.Breaks(f.breaks...)
	s.Begin("", "the servers")
	heal, err := f.strike(s.Rand)
	if err == nil && f.effect != nil {
		var seen string
		if seen, err = f.effect(); seen != "" {
			s.Bit("%s", seen)
		}
	}
	if err == nil {
		s.Last(ctx)
	}
	if heal != nil {
		err = errors.Join(err, heal())
	}
	if n := s.Trouble() - before; n > 0 && f.effect == nil {
		s.Bit("%d calls failed, leases were lost, or clients found the engine away", n)
	}
	return err
}

// machine is one server.
type machine interface {
	Kill() error
	Stop() error
	Cont() error
}

// stopped stops all servers, or one of them.
func stopped[M machine](all []M) fault {
	return fault{name: "server stop", strike: func(rng *rand.Rand) (func() error, error) {
		hit := some(rng, all)
		return func() error { return each(hit, M.Cont) }, each(hit, M.Stop)
	}}
}

// restarted kills all servers, or one of them, and starts them again with what they had on
// their disks.
func restarted[M machine](all []M, start func(M) error) fault {
	return fault{name: "server restart", strike: func(rng *rand.Rand) (func() error, error) {
		hit := some(rng, all)
		return func() error { return each(hit, start) }, each(hit, M.Kill)
	}}
}

// failover kills the server that is in charge. healthy waits until it is back among the others.
func failover[M machine](leader func(*rand.Rand) (M, error), start func(M) error, healthy func() error) fault {
	return fault{name: "failover", breaks: []string{history.Failover}, strike: func(rng *rand.Rand) (func() error, error) {
		m, err := leader(rng)
		if err != nil {
			return nil, err
		}
		return func() error {
			if err := start(m); err != nil {
				return err
			}
			return healthy()
		}, m.Kill()
	}}
}

// The faults that need a server of their own kind.
const (
	clockFault = "server clock"
	powerFault = "power cut"
)

// step is how far the clock of a server is set.
const step = time.Minute

// shifted sets the clock of a server forward or back. now is what the server says the time is,
// in seconds.
func shifted(clock *servers.Clock, now func() (int64, error)) fault {
	var ahead time.Duration
	return fault{
		name: clockFault, breaks: []string{history.Clock},
		strike: func(rng *rand.Rand) (func() error, error) {
			if ahead = step; rng.IntN(2) == 0 {
				ahead = -step
			}
			return func() error { return clock.Set(0) }, clock.Set(ahead)
		},
		effect: func() (string, error) {
			says, err := now()
			if off := time.Unix(says, 0).Sub(time.Now().Add(ahead)).Abs(); err != nil || off > step/2 {
				return "", err // the server keeps the machine's clock: it has no effect
			}
			return fmt.Sprintf("the server says that it is %v", time.Unix(says, 0).UTC().Format(time.TimeOnly)), nil
		},
	}
}

// powerCut kills all servers and cuts the power of their disk, so that they have only what
// they had synced when they are started again.
func powerCut[M machine](disk *servers.Disk, all []M, start func(M) error) fault {
	lost := 0
	return fault{
		name: powerFault,
		strike: func(*rand.Rand) (func() error, error) {
			heal := func() error { return each(all, start) }
			if err := each(all, M.Kill); err != nil {
				return heal, err
			}
			var err error
			lost, err = disk.CutPower()
			return heal, err
		},
		effect: func() (string, error) {
			if lost == 0 {
				return "", nil
			}
			return fmt.Sprintf("%d bytes are gone that were not synced", lost), nil
		},
	}
}

// missing is a fault that cannot come to the servers of a trial.
type missing struct {
	name string
	why  error
}

func (m missing) Name() string { return m.name }

func (m missing) Prepare(context.Context, *torture.Ground) error { return m.why }

func (m missing) Strike(context.Context, *torture.Strike) error { return m.why }

// some are all, or one of them.
func some[M any](rng *rand.Rand, all []M) []M {
	if rng.IntN(2) == 0 {
		return all
	}
	at := rng.IntN(len(all))
	return all[at : at+1]
}

// each does the same to all at once: a member that is started waits for the others.
func each[M any](all []M, do func(M) error) error {
	errs := make([]error, len(all))
	var busy sync.WaitGroup
	for i, m := range all {
		busy.Go(func() { errs[i] = do(m) })
	}
	busy.Wait()
	return errors.Join(errs...)
}

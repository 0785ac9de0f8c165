package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"leasehold"
	"leasehold/engines"
	"leasehold/lab/internal/proc"
)

// fleet is how many machines are stood in for, and for how long they are watched.
type fleet struct {
	Machines int
	Watched  time.Duration
}

// cost is what a server pays for one machine: a client with a lease of the default TTL
// that nobody waits for, or a client that waits for one name with all others.
type cost struct {
	connections float64
	memory      float64       // bytes
	holding     time.Duration // CPU time of the server in a second
	waiting     time.Duration
}

type bill struct {
	name string
	cost
}

// weigh measures what a server pays for machines.
func weigh(ctx context.Context, s store, f fleet) (b bill, err error) {
	b.name = s.name
	at, err := open(ctx, s)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	if at.pid == 0 {
		return b, nil // no server
	}
	n := float64(f.Machines)
	idle, err := at.busy(ctx, f.Watched) // and it has settled after its start
	if err != nil {
		return b, err
	}
	memory, err := proc.Memory(at.pid)
	if err != nil {
		return b, err
	}
	connections, err := proc.Connections(at.addr)
	if err != nil {
		return b, err
	}

	clients := make([]*leasehold.Client, f.Machines)
	defer func() {
		for _, c := range clients {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	leases := make([]*leasehold.Lease, f.Machines)
	for i := range clients {
		eng, err := engines.Open(ctx, at.url)
		if err != nil {
			return b, err
		}
		if clients[i], err = leasehold.New(eng, nil); err != nil {
			return b, err
		}
		if leases[i], err = clients[i].Lock(ctx, fmt.Sprint("machine:", i)); err != nil {
			return b, err
		}
	}
	busy, err := at.busy(ctx, f.Watched)
	if err != nil {
		return b, err
	}
	b.holding = time.Duration(float64(busy-idle) / n)
	after, err := proc.Memory(at.pid)
	if err != nil {
		return b, err
	}
	b.memory = float64(after-memory) / n
	open, err := proc.Connections(at.addr)
	if err != nil {
		return b, err
	}
	b.connections = float64(open-connections) / n

	for _, l := range leases {
		if err := l.Unlock(); err != nil {
			return b, err
		}
	}
	held, err := at.locks.Lock(ctx, "one name")
	if err != nil {
		return b, err
	}
	wait, stop := context.WithCancel(ctx)
	over := make(chan error, f.Machines)
	for _, c := range clients {
		go func() {
			_, err := c.Lock(wait, "one name")
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			over <- err
		}()
	}
	busy, err = at.busy(ctx, f.Watched)
	b.waiting = time.Duration(float64(busy-idle) / n)
	stop()
	for range clients {
		err = errors.Join(err, <-over)
	}
	return b, errors.Join(err, held.Unlock())
}

// busy is the CPU time that the server takes in a second, after a while in which clients
// settle.
func (at *site) busy(ctx context.Context, watched time.Duration) (time.Duration, error) {
	if err := pause(ctx, 3*time.Second); err != nil {
		return 0, err
	}
	before, err := proc.CPU(at.pid)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, watched); err != nil {
		return 0, err
	}
	after, err := proc.CPU(at.pid)
	return time.Duration(float64(after-before) / watched.Seconds()), err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const theFleet = 10_000 // machines that the page speaks of

func (b bill) line() string {
	share := func(d time.Duration) string { return fmt.Sprintf("%.2f", max(0, d.Seconds()*theFleet)) }
	return fmt.Sprintf("| %s | %.0f | %s | %s | %s |", b.name, b.connections*theFleet, amount(int64(max(0, b.memory)*theFleet)), share(b.holding), share(b.waiting))
}

func billTable(bills []bill) string {
	var b strings.Builder
	b.WriteString("| engine | connections | memory of the server | cores, each holds a lease | cores, all wait for one name |\n|---|---|---|---|---|\n")
	for _, r := range bills {
		b.WriteString(r.line() + "\n")
	}
	return b.String()
}

package demo

import (
	"context"
	"errors"

	"leasehold"
	"leasehold/engines"
	"leasehold/fence"
)

// ours plays with leasehold.
type ours struct {
	locks  *leasehold.Client
	leases map[string]*leasehold.Lease
}

func openOurs(ctx context.Context, o *order) (player, error) {
	eng, err := engines.Open(ctx, o.Server)
	if err != nil {
		return nil, err
	}
	locks, err := leasehold.New(eng, &leasehold.Options{TTL: o.Expiry, Label: o.Owner})
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return &ours{locks: locks, leases: map[string]*leasehold.Lease{}}, nil
}

// lock asks with the leases that this process holds, so that a cycle can be found.
func (o *ours) lock(ctx context.Context, name string) error {
	for _, l := range o.leases {
		var cancel context.CancelFunc
		ctx, cancel = l.Bind(ctx)
		defer cancel()
	}
	l, err := o.locks.Lock(ctx, name)
	if err == nil {
		o.leases[name] = l
	}
	return err
}

func (o *ours) unlock(_ context.Context, name string) error {
	l := o.leases[name]
	if l == nil {
		return errNotHeld
	}
	delete(o.leases, name)
	return l.Unlock()
}

func (o *ours) believes(name string) error {
	l := o.leases[name]
	switch {
	case l == nil:
		return errNotHeld
	case !l.Valid():
		return context.Cause(l.Context())
	}
	return nil
}

// loss is nil when the lease was lost.
func (o *ours) loss(ctx context.Context, name string) error {
	l := o.leases[name]
	if l == nil {
		return errNotHeld
	}
	select {
	case <-l.Context().Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *ours) pass(name string) string {
	if l := o.leases[name]; l != nil {
		return fence.Of(l).String()
	}
	return ""
}

func (o *ours) close() error { return o.locks.Close() }

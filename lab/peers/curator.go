package main

import (
	"context"
	"strings"

	"leasehold"
	"leasehold/lab/interop/curator"
	"leasehold/torture"
)

// mutexes is Curator's InterProcessMutex with a ConnectionStateListener, as its documentation
// asks for.
type mutexes struct{ *javas }

func openCurator(_ context.Context, at place) (library, error) {
	return mutexes{&javas{
		kind: curator.Mutex, root: "/", lock: "acquire", try: "acquire", unlock: "release",
		start: func(ctx context.Context) (*curator.Process, error) {
			program, err := curator.Build(ctx, curator.Current)
			if err != nil {
				return nil, err
			}
			return program.Start(ctx, curator.Options{Servers: []string{at.addr}, Session: at.ttl, JVM: small})
		},
	}}, nil
}

func (m mutexes) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	held := &mutexHeld{}
	h, err := m.take(ctx, name, try, func(h *javaHeld) error {
		held.javaHeld = h
		var err error
		held.losses, _, err = held.connection(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	held.javaHeld = h
	return held, nil
}

type mutexHeld struct {
	*javaHeld
	losses string // how often the listener had heard LOST before the lock was asked for
}

// connection is what the listener has heard: how often LOST, and whether the last is neither
// that nor SUSPENDED.
func (h *mutexHeld) connection(ctx context.Context) (losses string, connected bool, err error) {
	a, err := h.do(ctx, "connection")
	losses, state, _ := strings.Cut(a.Value, " ")
	return losses, state == "true", err
}

func (h *mutexHeld) Valid() bool {
	losses, connected, err := h.connection(context.Background())
	return err == nil && connected && losses == h.losses
}

// Lost is nil: Valid asks for what the listener has heard of, in the process that has it.
func (*mutexHeld) Lost() <-chan struct{} { return nil }

func (h *mutexHeld) Unlock() error {
	valid := h.Valid()
	if err := h.javaHeld.Unlock(); err != nil || valid {
		return err
	}
	return leasehold.ErrLost
}

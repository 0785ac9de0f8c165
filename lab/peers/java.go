package main

import (
	"context"
	"errors"
	"sync"

	"leasehold"
	"leasehold/lab/interop/redisson"
)

// javas is a Java process. A lock belongs to one of its threads.
type javas struct {
	kind         string // of the locks
	root         string // what their names begin with
	start        func(context.Context) (*redisson.Process, error)
	lock, unlock string // commands
	try          string // the command that does not wait

	process *redisson.Process // nil: nobody will lock

	mu      sync.Mutex
	free    []int // threads that have nothing
	threads int
}

// small are flags for a Java machine of which there are several: it takes little memory, and
// does not compile in the background for long.
var small = []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// begin starts the process. Who only looks at the server needs none.
func (j *javas) begin(ctx context.Context) (err error) {
	j.process, err = j.start(ctx)
	return err
}

// thread is one that has nothing.
func (j *javas) thread() (*redisson.Thread, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.threads + 1
	if last := len(j.free) - 1; last >= 0 {
		n, j.free = j.free[last], j.free[:last]
	} else {
		j.threads = n
	}
	return j.process.Thread(n), n
}

func (j *javas) back(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.free = append(j.free, n)
}

// javaHeld is a lock in a Java process.
type javaHeld struct {
	*javas
	t    *redisson.Thread
	n    int
	name string
}

// take locks a name. before, unless it is nil, is called in the thread that will lock.
func (j *javas) take(ctx context.Context, name string, try bool, before func(*javaHeld) error) (*javaHeld, error) {
	t, n := j.thread()
	h := &javaHeld{j, t, n, j.root + name}
	if before != nil {
		if err := before(h); err != nil {
			return nil, err
		}
	}
	if try {
		a, err := h.do(ctx, j.try, "0")
		switch {
		case err != nil:
			return nil, err
		case a.Value != "true":
			j.back(n)
			return nil, leasehold.ErrHeld
		}
		return h, nil
	}
	answer := t.Go(j.lock, j.kind, h.name)
	select {
	case a := <-answer:
		if a.Err != nil {
			return nil, a.Err // what the thread has now is not known: nobody gets it
		}
		return h, nil
	case <-ctx.Done():
		t.Go("interrupt")
		go func() {
			if a := <-answer; a.Err == nil {
				_ = h.Unlock() // nobody wants it any more
			}
		}()
		return nil, ctx.Err()
	}
}

// do has the thread of the lock do something with it.
func (h *javaHeld) do(ctx context.Context, command string, args ...string) (redisson.Answer, error) {
	return h.t.Do(ctx, command, append([]string{h.kind, h.name}, args...)...)
}

func (h *javaHeld) Unlock() error {
	_, err := h.do(context.Background(), h.unlock)
	thrown, ok := errors.AsType[*redisson.Exception](err)
	switch {
	case err == nil:
		h.back(h.n)
	case ok && thrown.Class == "IllegalMonitorStateException":
		h.back(h.n)
		return leasehold.ErrLost
	}
	return err
}

func (j *javas) Close() error {
	if j.process == nil {
		return nil
	}
	return j.process.Close()
}

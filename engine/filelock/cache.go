package filelock

import (
	"cmp"
	"context"
	"slices"
)

// maxKept bounds the buffers that a record keeps: a line that was long once
// should not cost its memory for ever.
const maxKept = 256 << 10

// hold finds the record of a name, or makes one to open.
func (e *Engine) hold(name string) *record {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.records[name]
	if r == nil {
		r = newRecord(e.lines, name, fileName(name))
		e.records[name] = r
	}
	r.users++
	return r
}

func (e *Engine) unhold(r *record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.users--; r.users == 0 && !r.isOpen {
		delete(e.records, r.name)
	}
}

// begin lets as many calls work at the same time as there are descriptors for,
// each in the turn of its record. From begin to end nobody else touches that;
// outside, if it is open, it may be closed.
//
// It comes after the turn: of a name whose lock somebody stopped holds, one
// call of this engine waits here, and the rest where they bother nobody.
func (e *Engine) begin(ctx context.Context, r *record) error {
	select {
	case e.working <- struct{}{}:
	default:
		select {
		case e.working <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r.works = true
	if r.isOpen {
		e.idles--
	}
	return nil
}

// end keeps the record open for the next call.
func (e *Engine) end(r *record) {
	e.mu.Lock()
	r.works = false
	if r.isOpen {
		e.idles++
		e.uses++
		r.used = e.uses
	}
	e.mu.Unlock()
	<-e.working
}

// makeRoom comes before another record is opened. If as many as may be are
// open and idle, it closes the half that was used longest ago, and removes
// those of them in which nobody is in line: a name that is used once costs
// nothing soon after, and who makes many pays for it. An error leaves them to
// a sweep; it is one that the caller's own work meets too.
//
// It comes before the work and not after it, so that the time it takes is not
// the time of a claim that was just granted.
func (e *Engine) makeRoom(ctx context.Context) {
	if old := e.dropIdle(e.most.records); len(old) > 0 {
		_ = e.discard(ctx, old)
	}
}

// shed closes whatever is open and idle, since the process has no descriptor
// left. Nothing is removed, which would need some.
func (e *Engine) shed() {
	for _, r := range e.dropIdle(0) {
		r.shut()
	}
	e.peers.Lock()
	defer e.peers.Unlock()
	for client := range e.peers.m {
		e.dropPeer(client)
	}
}

// dropIdle takes what is open and idle out of the cache if it is at least so
// many: all but the most recent half of them. The caller has it for itself.
func (e *Engine) dropIdle(most int) (old []*record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idles < most {
		return nil
	}
	for _, r := range e.records {
		if !r.works && r.isOpen { // of one that works nothing else may be looked at
			old = append(old, r)
		}
	}
	slices.SortFunc(old, func(a, b *record) int { return cmp.Compare(a.used, b.used) })
	old = old[:len(old)-most/2]
	for i, r := range old {
		old[i] = r.detach()
		if r.users == 0 {
			delete(e.records, r.name)
		}
	}
	e.idles -= len(old)
	return old
}

// discard closes records of the caller's own and removes those in which nobody
// is in line. One rise of the floor serves all of them.
func (e *Engine) discard(ctx context.Context, rs []*record) error {
	floor, any := uint64(0), false
	for _, r := range rs {
		if len(r.state.line.Places) == 0 {
			floor, any = max(floor, r.state.line.Last), true
		}
	}
	var err error
	if any {
		if err = e.raiseFloor(ctx, floor); err == nil {
			e.step("floor raised")
		}
	}
	for _, r := range rs {
		if err == nil && len(r.state.line.Places) == 0 && ctx.Err() == nil {
			// One that somebody else uses now stays.
			_, err = e.removeOpen(r, floor, 0)
		}
		r.shut()
	}
	return cmp.Or(err, ctx.Err())
}

// enter lets a method run, unless the engine is closed.
func (e *Engine) enter() bool {
	e.gate.RLock()
	if e.shut {
		e.gate.RUnlock()
		return false
	}
	return true
}

func (e *Engine) leave() { e.gate.RUnlock() }

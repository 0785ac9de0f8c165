package leasehold

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// join asks the engine for the place of cl. It runs in the goroutine of the caller
// whose ctx this is, or in one of its own (with the client's life). Trust counts from
// s, a moment before the request is written. The caller may have gone when the answer
// comes: then ctx has ended, and join reports to the machine that the call was cut
// short. call is memory for the call's own context.
func (k *core) join(ctx context.Context, call *bounded, s time.Duration, cl *claims.Claim) {
	r := cl.Request()
	call.begin(ctx, k.joining, r.WaitTTL)
	defer call.end()
	got, err := k.eng.Join(call, r)
	k.joins.Done()
	k.mu.Lock()
	defer k.unlock()
	k.machine.Joined(k.now(), cl, s, got, err, hasEnded(ctx))
	k.carryOutLocked(nil)
}

// hasEnded reports whether ctx has ended, or its deadline has passed and only its timer
// is late. A call that the caller's own time-out cut short says nothing about the
// engine.
func hasEnded(ctx context.Context) bool {
	at, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(at)
}

// renewals is one call of Renew. It may take as long as the longest time that
// any of its claims was granted last: later no answer could help them.
type renewals struct {
	asked []engine.Renewal
	bound time.Duration
}

func (r *renewals) add(o *claims.Output) {
	r.asked = append(r.asked, engine.Renewal{Name: o.Claim.Name(), ID: o.Claim.ID(), Want: o.Want})
	r.bound = max(r.bound, o.Bound)
}

func (k *core) renew(r renewals) {
	ctx, cancel := context.WithTimeout(k.life, r.bound)
	defer cancel()
	s := k.now()
	got, err := k.eng.Renew(ctx, r.asked)
	k.mu.Lock()
	defer k.unlock()
	k.machine.Renewed(k.now(), s, r.asked, got, err)
	k.carryOutLocked(nil)
}

func (k *core) leave(ctx context.Context, asked []engine.Claim) {
	call := withBound(ctx, k.life, releaseBound)
	defer call.end()
	got, err := k.eng.Leave(call, asked)
	k.mu.Lock()
	defer k.unlock()
	k.machine.Left(k.now(), asked, got, err)
	k.carryOutLocked(nil)
}

// watch listens to the engine until Close.
func (k *core) watch() {
	k.eng.KeepWatching(k.life, k.changed, func(err error) {
		k.mu.Lock()
		defer k.unlock()
		k.machine.Answered(k.now(), err)
		k.carryOutLocked(nil)
	})
}

// changed takes in what Watch reports.
func (k *core) changed(got engine.Claim) {
	k.mu.Lock()
	defer k.unlock()
	if got.ID == (engine.ID{}) {
		k.machine.Began(k.now())
		k.recheckLocked()
	} else {
		k.machine.Notified(k.now(), got)
	}
	k.carryOutLocked(nil)
}

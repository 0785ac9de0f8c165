package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"leasehold/internal/coalesce"
)

// bounds are how long an engine waits for etcd.
type bounds struct {
	// The first attempt of a request is given an eighth of the shortest TTL in use, within these.
	least, most time.Duration

	hedge   time.Duration // after that much a request is sent once more beside the first: see hedge
	closing time.Duration // for the revocation of sessions, by Close and where nobody uses one
}

// usual are the bounds of programs.
var usual = bounds{
	least: 500 * time.Millisecond, most: 2 * time.Second,
	hedge: 150 * time.Millisecond, closing: 2 * time.Second,
}

// again asks until there is an answer, or ctx or the engine's life ends. A request may be in the hands of
// a member that is stopped, of which nobody hears before its connection is taken for
// dead, which takes the library ten seconds and more; it gives the next request to
// the next member. What is slow, and not stopped, is given twice the time with each
// attempt. Where etcd says that it has too much to do, it is left alone for a while,
// for each caller another one, so that they do not come back together.
//
// ask bounds its request by patience, from when it is sent.
func (e *Engine) again(ctx context.Context, ask func(ctx context.Context, patience time.Duration) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(e.life, stop)()
	for patience := min(max(e.shortest()/8, e.bounds.least), e.bounds.most); ; patience *= 2 {
		err := ask(ctx, patience)
		if err == nil || ctx.Err() != nil || !overdue(err) && !busy(err) {
			return err
		}
		if e.pause(ctx, patience/4) != nil {
			return err
		}
	}
}

// propose is again for what changes something. A second proposal while the first is
// in a queue makes the queue longer and tells nothing. So before it is sent once
// more somebody must have answered a question: then the first is lost, or with a
// member that is stopped. Callers share the question.
func (e *Engine) propose(ctx context.Context, ask func(ctx context.Context, patience time.Duration) error) error {
	return e.again(ctx, func(ctx context.Context, patience time.Duration) error {
		err := ask(ctx, patience)
		for asked := overdue(err); asked; {
			_, _, failed := e.lookAt(ctx, reading{}, 0)
			asked = overdue(failed) && ctx.Err() == nil
		}
		return err
	})
}

// one bounds a request by patience.
func one(ask func(ctx context.Context) error) func(context.Context, time.Duration) error {
	return func(ctx context.Context, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return ask(ctx)
	}
}

// explain is explain for an engine that is open. The library waits for a connection until a
// request's time ends, and keeps to itself why it has none.
func (e *Engine) explain(err error) error {
	conn := e.client.ActiveConnection()
	if !overdue(err) || conn.GetState() != connectivity.TransientFailure {
		return explain(err)
	}
	ctx, cancel := context.WithTimeout(e.life, askWhy)
	defer cancel()
	// Without a connection this fails at once. With one, since there is one now, it reads a key.
	_, why := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte(e.keys.prefix)}, grpc.WaitForReady(false))
	if status.Code(why) != codes.Unavailable {
		return explain(err)
	}
	return fmt.Errorf("no etcd answers: %s: %w", status.Convert(why).Message(), err)
}

// askWhy bounds how long a call that has failed asks why.
const askWhy = 100 * time.Millisecond

// shared bounds what is asked for many at once: no caller's context does, since one must
// not break off the others.
const shared = 30 * time.Second

// do carries one request out, and remembers what its answer says of the store.
func (e *Engine) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	asked := e.past.asked()
	r, err := e.client.Do(ctx, op)
	if err != nil {
		return r, err
	}
	switch {
	case r.Txn() != nil:
		e.past.saw(r.Txn().Header, asked)
	case r.Get() != nil:
		e.past.saw(r.Get().Header, asked)
	case r.Del() != nil:
		e.past.saw(r.Del().Header, asked)
	}
	return r, nil
}

// read is do for what changes nothing, which is asked again.
func (e *Engine) read(ctx context.Context, op clientv3.Op) (r clientv3.OpResponse, err error) {
	err = e.again(ctx, one(func(ctx context.Context) (err error) {
		r, err = e.do(ctx, op)
		return err
	}))
	return r, err
}

// discard revokes a lease that nothing hangs on any more. If that fails, it ends by its TTL.
func (e *Engine) discard(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(ctx, e.bounds.least)
	defer cancel()
	_, _ = e.client.Revoke(ctx, id)
}

// pause waits for most, or up to half of it less, so that not all ask again at once and nobody asks
// in a tight loop. It returns ctx's error if that ends first.
func (e *Engine) pause(ctx context.Context, most time.Duration) error {
	select {
	case <-time.After(most - rand.N(most/2+1)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overdue reports whether an answer did not come in time.
func overdue(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// busy reports whether etcd has too much to do, or was cut off from doing it.
func busy(err error) bool {
	is := rpctypes.Error(err)
	for _, one := range []error{
		rpctypes.ErrTooManyRequests, rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail,
		rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutWaitAppliedIndex,
	} {
		if errors.Is(is, one) {
			return true
		}
	}
	// A leader that is handing over says this, as raft does.
	return status.Code(err) == codes.Unknown && strings.Contains(err.Error(), "raft proposal dropped")
}

// unclear reports whether a request that failed may have been carried out, or may be
// yet. What etcd refused was not; where it says that it is not available it may have
// begun.
func indeterminate(err error) bool {
	if err == nil { // of which there are the most
		return false
	}
	var said rpctypes.EtcdError
	return !errors.Is(err, coalesce.ErrNotSent) && (!errors.As(err, &said) || said.Code() == codes.Unavailable)
}

// hedge asks, and asks once more each time that no answer came for after, without
// giving the first up. It takes the answer that comes first, also a refusal. A member that stands
// still must not cost a lease of a short TTL: a renewal is two requests one after the other, a
// replacement more, and each may go to it. Asking twice must do no harm, and ask must end with
// its context.
func hedge[T any](ctx context.Context, after time.Duration, ask func(context.Context) (T, error)) (got T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		got T
		err error
	}
	answers := make(chan answer, hedgeMost)
	for asked, failed := 0, 0; ; {
		var later <-chan time.Time
		if asked < hedgeMost {
			asked++
			go func() {
				got, err := ask(ctx)
				answers <- answer{got, err}
			}()
			later = time.After(after)
		}
		select {
		case a := <-answers:
			failed++
			if a.err == nil || failed == asked && asked == hedgeMost || !indeterminate(a.err) {
				return a.got, a.err
			}
		case <-later:
		}
	}
}

// hedgeMost bounds how often a request is sent.
const hedgeMost = 3

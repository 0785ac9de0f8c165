package etcdlock

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

// again asks until there is an answer or ctx ends. A request may be in the hands of
// a member that is stopped, of which nobody hears before its connection is taken for
// dead, which takes the library ten seconds and more; it gives the next request to
// the next member. What is slow, and not stopped, is given twice the time with each
// attempt.
func (e *Engine) again(ctx context.Context, ask func(ctx context.Context) error) error {
	for patience := min(e.ttl/8, 2*time.Second); ; patience *= 2 {
		once, cancel := context.WithTimeout(ctx, patience)
		err := ask(once)
		late := once.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return err
		}
	}
}

// unclear reports whether a request that failed may have been carried out, or may be
// yet. What etcd refused was not; where it says that it is not available it may have
// begun.
func unclear(err error) bool {
	var said rpctypes.EtcdError
	return err != nil && (!errors.As(err, &said) || said.Code() == codes.Unavailable)
}

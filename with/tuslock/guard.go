package tuslock

import (
	"context"
	"fmt"
	"io"

	"github.com/tus/tusd/v2/pkg/handler"
	"leasehold"
)

// UseIn makes the composer use the Locker, and guards the data stores that it has by then: call
// it after UseIn of the store. A call under a lock of this Locker then ends with the lease,
// and fails with ErrLost after a loss. Calls without a lock go through unchanged: tusd
// creates, joins and reads uploads without one.
func (l *Locker) UseIn(c *handler.StoreComposer) {
	c.UseLocker(l)
	if c.Core != nil {
		c.UseCore(store{c.Core, l})
	}
	if c.Terminater != nil {
		c.UseTerminater(terminater{c.Terminater})
	}
	if c.LengthDeferrer != nil {
		c.UseLengthDeferrer(deferrer{c.LengthDeferrer})
	}
	if c.Concater != nil {
		c.UseConcater(concater{c.Concater})
	}
	if c.ContentServer != nil {
		c.UseContentServer(server{c.ContentServer})
	}
}

// store gives out guarded uploads.
type store struct {
	handler.DataStore
	locker *Locker
}

func (s store) NewUpload(ctx context.Context, info handler.FileInfo) (handler.Upload, error) {
	u, err := s.DataStore.NewUpload(ctx, info)
	if err != nil {
		return nil, err
	}
	return &upload{Upload: u, locker: s.locker}, nil
}

func (s store) GetUpload(ctx context.Context, id string) (handler.Upload, error) {
	u, err := s.DataStore.GetUpload(ctx, id)
	if err != nil {
		return nil, err
	}
	return &upload{Upload: u, locker: s.locker, hold: s.locker.holding(id)}, nil
}

// upload is one upload in the hands of one request.
type upload struct {
	handler.Upload
	locker *Locker
	hold   *hold // that of the request; nil: it has none, or did not have one yet
}

// held returns the lease of the request, or nil without a lock. A new upload is locked after it
// was made, so it looks again.
func (u *upload) held(ctx context.Context) (*leasehold.Lease, error) {
	if u.hold == nil {
		info, err := u.Upload.GetInfo(ctx)
		if err != nil {
			return nil, err
		}
		u.hold = u.locker.holding(info.ID)
	}
	if u.hold == nil {
		return nil, nil
	}
	return u.hold.lease, nil
}

// guarded runs fn under the lease of the request.
func (u *upload) guarded(ctx context.Context, fn func(context.Context, *leasehold.Lease) error) error {
	lease, err := u.held(ctx)
	if err != nil {
		return err
	}
	if lease == nil {
		return fn(ctx, nil)
	}
	if err := lost(lease); err != nil {
		return err
	}
	ctx, cancel := lease.Bind(ctx)
	defer cancel()
	return fn(ctx, lease)
}

// lost returns ErrLost if the lease does not hold any more.
func lost(lease *leasehold.Lease) error {
	if lease.Valid() {
		return nil
	}
	if cause := context.Cause(lease.Context()); cause != nil {
		return fmt.Errorf("%w: %w", ErrLost, cause)
	}
	return ErrLost
}

func (u *upload) WriteChunk(ctx context.Context, offset int64, src io.Reader) (n int64, err error) {
	err = u.guarded(ctx, func(ctx context.Context, lease *leasehold.Lease) error {
		if lease != nil {
			src = reader{src, lease}
		}
		n, err = u.Upload.WriteChunk(ctx, offset, src)
		return err
	})
	return n, err
}

func (u *upload) FinishUpload(ctx context.Context) error {
	return u.guarded(ctx, func(ctx context.Context, _ *leasehold.Lease) error {
		return u.Upload.FinishUpload(ctx)
	})
}

// reader is a request's body. It looks at the lease after each read: a request may wait in a read
// for as long as its process is stopped, and the lease may be another's when it returns.
type reader struct {
	io.Reader
	lease *leasehold.Lease
}

func (r reader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if lost := lost(r.lease); lost != nil {
		return 0, lost
	}
	return n, err
}

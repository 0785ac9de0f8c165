package tuslock

import (
	"context"

	"github.com/tus/tusd/v2/pkg/handler"
	"leasehold"
)

// The extensions of a store expect uploads of their own type.

// inner returns the store's own upload.
func inner(u handler.Upload) handler.Upload {
	if u, ok := u.(*upload); ok {
		return u.Upload
	}
	return u
}

// under runs fn under the lease of the request that has the upload.
func under(ctx context.Context, u handler.Upload, fn func(context.Context) error) error {
	guard, ok := u.(*upload)
	if !ok {
		return fn(ctx)
	}
	return guard.guarded(ctx, func(ctx context.Context, _ *leasehold.Lease) error { return fn(ctx) })
}

type terminater struct{ handler.TerminaterDataStore }

func (s terminater) AsTerminatableUpload(u handler.Upload) handler.TerminatableUpload {
	return terminatable{s.TerminaterDataStore.AsTerminatableUpload(inner(u)), u}
}

type terminatable struct {
	handler.TerminatableUpload
	upload handler.Upload
}

func (t terminatable) Terminate(ctx context.Context) error {
	return under(ctx, t.upload, t.TerminatableUpload.Terminate)
}

type deferrer struct {
	handler.LengthDeferrerDataStore
}

func (s deferrer) AsLengthDeclarableUpload(u handler.Upload) handler.LengthDeclarableUpload {
	return declarable{s.LengthDeferrerDataStore.AsLengthDeclarableUpload(inner(u)), u}
}

type declarable struct {
	handler.LengthDeclarableUpload
	upload handler.Upload
}

func (d declarable) DeclareLength(ctx context.Context, length int64) error {
	return under(ctx, d.upload, func(ctx context.Context) error {
		return d.LengthDeclarableUpload.DeclareLength(ctx, length)
	})
}

type concater struct{ handler.ConcaterDataStore }

func (s concater) AsConcatableUpload(u handler.Upload) handler.ConcatableUpload {
	return concatable{s.ConcaterDataStore.AsConcatableUpload(inner(u)), u}
}

type concatable struct {
	handler.ConcatableUpload
	upload handler.Upload
}

func (c concatable) ConcatUploads(ctx context.Context, parts []handler.Upload) error {
	own := make([]handler.Upload, len(parts))
	for i, p := range parts {
		own[i] = inner(p)
	}
	return under(ctx, c.upload, func(ctx context.Context) error {
		return c.ConcatableUpload.ConcatUploads(ctx, own)
	})
}

type server struct{ handler.ContentServerDataStore }

func (s server) AsServableUpload(u handler.Upload) handler.ServableUpload {
	return s.ContentServerDataStore.AsServableUpload(inner(u))
}

package httplock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"leasehold/engine"
	"leasehold/internal/remote"
)

// maxAnswer bounds what an answer may bring: remote.MaxBatch claims, or a queue of
// engine.MaxQueue.
const maxAnswer = 64 << 20

// call makes one call and decodes its answer.
func (e *Engine) call(ctx context.Context, over *http.Client, path string, in, out any) error {
	body, err := e.post(ctx, over, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("read the answer of the service: %w", causeOf(ctx, err))
	}
	io.Copy(io.Discard, io.LimitReader(body, 1<<10)) // the end of it, so that HTTP/1.1 keeps the connection
	return nil
}

// post sends a call and returns its answer, which has status 200. If the server does not
// answer, the next call goes to the next address. This one does not: it may have arrived.
func (e *Engine) post(ctx context.Context, over *http.Client, path string, in any) (io.ReadCloser, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err // only a time outside the years 0 to 9999
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(e.life, func() { cancel(nil) })
	at := e.at.Load()
	unguard := func() {}
	if len(e.bases) > 1 && mayRepeat(path) {
		unguard = e.guard(ctx, at, cancel)
	}
	end := func() { forget(); unguard(); cancel(nil) }
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.base+path, bytes.NewReader(body))
	if err != nil {
		end()
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if e.token != "" {
		r.Header.Set("Authorization", "Bearer "+e.token)
	}
	a, err := over.Do(r)
	if err == nil {
		e.hears(at)
	}
	// A caller that had little time says nothing of a server that answers others.
	hasty := errors.Is(ctx.Err(), context.DeadlineExceeded) && e.since(at) < silentAfter
	if err != nil && !hasty && !errors.Is(ctx.Err(), context.Canceled) || err == nil && a.StatusCode >= 500 {
		e.leave(at)
	}
	if err != nil {
		defer end()
		return nil, fmt.Errorf("ask %s: %w", at.base, causeOf(ctx, bare(err)))
	}
	read := &reading{a.Body, end}
	if a.StatusCode != http.StatusOK {
		defer read.Close()
		return nil, refused(at.base, a)
	}
	return read, nil
}

// reading ends its context when the answer has been read.
type reading struct {
	io.ReadCloser
	end func()
}

func (r *reading) Close() error {
	defer r.end()
	return r.ReadCloser.Close()
}

// refused is the error of an answer with another status. The service did not ask its
// engine then.
func refused(base string, a *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(a.Body, 4<<10))
	var p struct {
		remote.Problem
		Error string `json:"error"`
	}
	said := ""
	if json.Unmarshal(text, &p) == nil {
		said = p.Text + p.Error
	}
	if said == "" {
		said = "its answer is not that of a leasehold service: " + strings.ToValidUTF8(string(text[:min(len(text), 200)]), "?")
	}
	err := fmt.Errorf("%s: %s: %s", base, a.Status, said)
	switch {
	case a.StatusCode == http.StatusUnauthorized, a.StatusCode == http.StatusForbidden, a.StatusCode == http.StatusNotFound,
		a.StatusCode == http.StatusBadRequest, a.StatusCode == http.StatusRequestEntityTooLarge, a.StatusCode/100 == 3:
		return fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
	return err
}

// bare is the cause inside the error of http.Client, which repeats the whole URL.
func bare(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}

// causeOf puts why a context ended in the place of an error that only says that it did.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
		return cause
	}
	return err
}

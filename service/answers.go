package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"leasehold/engine"
	"leasehold/internal/remote"
)

// Bounds of what a request may bring.
const (
	maxBody      = 64 << 10 // of a request for one name: 512 bytes of name, each escaped, and 1 KiB of owner
	maxBatchBody = 8 << 20  // of remote.MaxBatch items
)

// problem is the body of every answer that is not what was asked for.
type problem struct {
	Error string `json:"error"` // what failed, why, and what to do
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, err error) {
	answer(w, status, problem{err.Error()})
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // only a time outside the years 0 to 9999 cannot be written, and owners have none
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // a caller that went does not read it
}

// failed answers with an error of the engine.
func failed(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	refuse(w, status, err)
}

// statusOf is the status for an error of the engine.
func statusOf(err error) int {
	_, greedy := errors.AsType[*tooMany](err)
	switch {
	case forbidden(err) != 0:
		return http.StatusForbidden
	case greedy:
		return http.StatusTooManyRequests
	case errors.Is(err, errors.ErrUnsupported):
		return http.StatusNotImplemented
	case errors.Is(err, engine.ErrLimit):
		return http.StatusConflict
	case errors.Is(err, engine.ErrNoClaim):
		return http.StatusNotFound
	case errors.Is(err, engine.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.Is(err, engine.ErrRefused):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// read decodes the body of a request into v. Nothing else may follow, and no field may be
// unknown: it would be a wish that is silently not granted.
func read(w http.ResponseWriter, r *http.Request, most int64, v any) bool {
	inTime := hurry(w)
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("something follows it")
	}
	if err == nil || errors.Is(err, io.EOF) { // none is the same as {}
		inTime()
		return true
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes: send less", tooLarge.Limit))
		return false
	}
	refuse(w, http.StatusBadRequest, fmt.Errorf("the body is not the JSON that this request has: %w", err))
	return false
}

// hurry bounds the reading of a body, until inTime is called: the deadline would end a request
// that waits for a lock. After the handler the server reads on, under a deadline again.
func hurry(w http.ResponseWriter) (inTime func()) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Now().Add(bodyWithin))
	return func() { c.SetReadDeadline(time.Time{}) }
}

// unasked answers a call of httplock for which the engine was not asked.
func unasked(w http.ResponseWriter, status int, kind remote.Kind, err error) {
	answer(w, status, remote.Problem{Kind: kind, Text: err.Error()})
}

// recorder remembers the status for the access log. An answer begins with a deadline for
// writing it. One that takes longer, or goes on, sets a later one after that.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(answerWithin)) // a recorder of a test has none
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(b)
}

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

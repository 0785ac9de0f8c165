package fencehttp

import (
	"net/http"
	"strconv"

	"leasehold"
	"leasehold/fence"
)

// The headers.
const (
	Token = "Leasehold-Token" // of a request: the pass, as fence.Pass.String writes it
	Mark  = "Leasehold-Mark"  // of a 409: the mark that refused it
)

// Transport shows the pass of a request's context (fence.NewContext). A request
// without one goes as it is. The zero value is ready, on http.DefaultTransport.
type Transport struct {
	Base http.RoundTripper
}

// RoundTrip fails with fence.ErrPass, and sends nothing, if the pass is of permits.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	p, ok := fence.FromContext(r.Context())
	if !ok {
		return base.RoundTrip(r)
	}
	if err := p.Valid(); err != nil {
		if r.Body != nil {
			r.Body.Close() // a RoundTripper must, on errors too
		}
		return nil, err
	}
	r = r.Clone(r.Context()) // a RoundTripper must not change what it was given
	r.Header.Set(Token, p.String())
	return base.RoundTrip(r)
}

// Refused is a *fence.StaleError if the answer says that the request's token is stale,
// else nil. It reads headers only; the body is still the caller's.
func Refused(resp *http.Response) error {
	if resp.StatusCode != http.StatusConflict || resp.Request == nil {
		return nil
	}
	p, ok := fence.FromContext(resp.Request.Context())
	mark, err := strconv.ParseUint(resp.Header.Get(Mark), 10, 63)
	if !ok || err != nil {
		return nil // a conflict of another kind
	}
	return &fence.StaleError{Name: p.Name, Token: p.Token, Mark: leasehold.Token(mark)}
}

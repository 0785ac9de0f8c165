package fencehttp

import (
	"net/http"
	"strconv"

	"leasehold"
	"leasehold/fence"
)

// These are the names of the headers.
const (
	Token = "Leasehold-Token" // of a request: the pass, as fence.Pass.String writes it
	Mark  = "Leasehold-Mark"  // of a 409: the mark that refused it
)

// Transport shows the pass of a request's context (fence.NewContext). It sends a request
// without a pass as it is. The zero value is ready, and uses http.DefaultTransport.
type Transport struct {
	Base http.RoundTripper
}

// RoundTrip sends the request with its pass. For a pass that is not valid, such as one of
// permits, it returns fence.ErrPass and sends nothing.
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

// Refused returns a *fence.StaleError if the answer says that the request's token is
// stale, and nil otherwise. It reads only headers; the caller still has the body.
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

// Package fencehttp carries fencing tokens in HTTP requests and refuses stale ones.
//
// A client shows the pass of its lease with each request:
//
//	client := &http.Client{Transport: &fencehttp.Transport{}}
//	err := locks.Do(ctx, "stock:42", func(ctx context.Context, l *leasehold.Lease) error {
//		req, err := http.NewRequestWithContext(fence.NewContext(ctx, fence.Of(l)), "PUT", url, body)
//		...
//		resp, err := client.Do(req)
//		...
//		return fencehttp.Refused(resp) // a *fence.StaleError if it was
//	})
//
// Without Go: curl -H "Leasehold-Token: $LEASEHOLD_TOKEN".
//
// A server names the lock that guards a request. Either [Handler] checks the token, or the
// server checks it in the transaction that writes, which is right with any number of
// servers:
//
//	mux.Handle("PUT /stock/{id}", fencehttp.Reader(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		p, _ := fence.FromContext(r.Context())
//		err := fencesql.PostgreSQL.Do(r.Context(), db, p, func(tx *sql.Tx) error { ... })
//		if fencehttp.Refuse(w, err) {
//			return
//		}
//		...
//	})))
//
// # The wire
//
//	request    Leasehold-Token: 1805961216000000037          exclusive
//	           Leasehold-Token: 1805961216000000037;shared   shared
//	409        the token is stale; Leasehold-Mark is the token that the resource has
//	           seen, and the body says why, as application/problem+json (RFC 9457)
//	           with name, token and mark as strings
//	428        no token (RFC 6585)
//	400        not a token, or several
//
// # What it cannot promise
//
// A token is no credential: the server's authentication decides which client may write.
// The server does not see a client that sends no token to a route without the middleware.
//
// A redirected request takes its token along, to another host too. So does a request that
// a handler makes under its request's context. The same name must guard the other
// resource. For a service that another name guards, take that name's pass, or a client
// without [Transport].
//
// With [Handler], a holder that stops in the middle of its upload makes later requests
// wait until its connection ends. Give the http.Server a ReadTimeout, or read the body
// before the check ([Reader]).
package fencehttp

package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
	"leasehold/internal/checked"
	"leasehold/internal/coalesce"
	"leasehold/internal/remote"
)

// Options are the choices of a Server. Nil means the defaults.
type Options struct {
	// Access says who may do what. Nil: every caller may do everything, which is for a
	// Server that only this machine reaches.
	Access *Access

	// Limits bound what one caller may take. A zero field has its default.
	Limits Limits

	// Metrics, if not nil, answers GET /metrics for callers who may look at every name.
	Metrics http.Handler

	// Log gets a line for each request, and what happens to the engine. It never gets a
	// handle, a claim ID or a bearer token. Nil: nothing is logged.
	Log *slog.Logger
}

// Server answers requests for locks on one engine. It is an http.Handler and safe for
// concurrent use.
type Server struct {
	eng    *checked.Engine
	grants engine.Guarantees
	access *Access
	limits Limits
	log    *slog.Logger
	mux    *http.ServeMux
	hub    *hub
	counts counts
	usage  usage
	renews coalesce.Group[engine.Renewal, renewed]
	feed   feed
	pages  http.CrossOriginProtection
	list   trouble
	certs  trouble
	names  bool // any Host means this service: see RunOptions.Insecure
	ready  readiness

	life     context.Context // ends when Close begins
	end      context.CancelFunc
	draining chan struct{} // closed by Drain
	drain    func()
	watching sync.WaitGroup
	behind   sync.WaitGroup // what goes on after its request: giving up
}

// callBound bounds each call to the engine.
const callBound = 10 * time.Second

// New returns a Server on the engine, which Close of the Server closes. It refuses an
// engine whose claims cannot outlive their client, with errors.ErrUnsupported.
func New(eng engine.Engine, o *Options) (*Server, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Server{
		eng: checked.New(eng), grants: eng.Guarantees(), access: o.Access, limits: o.Limits.withDefaults(), log: o.Log,
		draining: make(chan struct{}),
	}
	if !s.grants.Detach {
		return nil, fmt.Errorf("service: the claims of this engine end with their client, which would be the service: let programs open the engine themselves: %w", errors.ErrUnsupported)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.hub = newHub(boottime.Now)
	s.renews = coalesce.Group[engine.Renewal, renewed]{
		Alone: s.renewAlone, Many: 2, Send: s.renewMany, Most: 1000, Patience: time.Second,
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.drain = sync.OnceFunc(func() { close(s.draining) })
	s.mux = s.routes()
	if o.Metrics != nil {
		s.mux.Handle("GET /metrics", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := callerOf(r.Context()).may(Look, ""); err != nil {
				refuse(w, http.StatusForbidden, err)
				return
			}
			o.Metrics.ServeHTTP(w, r)
		}))
	}
	s.watching.Go(func() {
		s.eng.KeepWatching(s.life, s.hub.changed, func(err error) {
			s.log.Warn("the engine sends no notifications: waiters poll", "error", err)
		})
	})
	s.watching.Go(func() { s.hub.sweep(s.life) })
	s.watching.Go(func() { s.feed.run(s.life, s) })
	return s, nil
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /v1/openapi.json", s.getOpenAPI)

	mux.HandleFunc("POST /v1/locks/{name...}", s.postLock)
	mux.HandleFunc("PUT /v1/locks/{name...}", s.putLock)
	mux.HandleFunc("DELETE /v1/locks/{name...}", s.deleteLock)
	mux.HandleFunc("POST /v1/locks", s.postLock)
	mux.HandleFunc("PUT /v1/locks", s.putLock)
	mux.HandleFunc("DELETE /v1/locks", s.deleteLock)

	mux.HandleFunc("GET /v1/queues", s.getQueues)
	mux.HandleFunc("GET /v1/queues/{name...}", s.getQueue)
	mux.HandleFunc("POST /v1/revoke", s.postRevoke)
	mux.HandleFunc("GET /v1/why/{name...}", s.getWhy)
	mux.HandleFunc("GET /v1/why", s.getWhy)
	mux.HandleFunc("GET /v1/watch", s.getWatch)

	s.engineRoutes(mux)
	s.tofuRoutes(mux)
	s.uiRoutes(mux)
	return mux
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	w, r = forBrowser(w, r)
	recorded := &recorder{ResponseWriter: w}
	s.counts.underWay.Add(1)
	defer func() {
		s.counts.underWay.Add(-1)
		s.counts.answers[min(recorded.code()/100, 5)].Add(1)
	}()
	if r.ContentLength != 0 {
		hurry(recorded)                    // the server reads a body to its end, also one that no handler wants
		defer func() { hurry(recorded) }() // and what the handler has left of it
	}
	who, err := s.access.caller(r)
	s.list.note(s.log, "the list of callers cannot be read: the last good one counts", s.access.problem())
	probe := r.URL.Path == "/livez" || r.URL.Path == "/readyz"
	defer func() {
		level := slog.LevelInfo
		if strings.HasPrefix(r.URL.Path, "/v1/engine/") || probe || followsPage(r) {
			level = slog.LevelDebug // some for each lock, and no person makes them
		}
		s.log.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", recorded.code(), "seconds", time.Since(began).Seconds(), "caller", who.name, "from", r.RemoteAddr)
	}()
	switch {
	case probe:
	case err != nil:
		recorded.Header().Set("WWW-Authenticate", "Bearer")
		refuse(recorded, http.StatusUnauthorized, err)
		return
	case s.foreign(r) != nil:
		refuse(recorded, http.StatusForbidden, s.foreign(r))
		return
	case !clean(r):
		refuse(recorded, http.StatusBadRequest, errors.New("the path has an empty segment, a . or a ..: write the name in the body of the request (\"name\") or as ?name=, or its / and . as %2F and %2E"))
		return
	}
	if !probe {
		done, err := s.usage.begin(who.name, s.limits, keeps(r))
		if err != nil {
			recorded.Header().Set("Retry-After", "1")
			refuse(recorded, http.StatusTooManyRequests, err)
			return
		}
		defer done()
	}
	s.mux.ServeHTTP(recorded, r.WithContext(withCaller(r.Context(), who)))
}

// keeps reports whether a request keeps a claim, or makes room: no limit refuses it.
func keeps(r *http.Request) bool {
	return takesHandle(r) || unlocksState(r) || r.URL.Path == remote.PathRenew || r.URL.Path == remote.PathLeave
}

// foreign says why a request comes from a web page of others, in a browser that reaches this
// service, or nil. Where everybody may do everything, and only this machine is served, a Host
// must mean this machine: a page of evil.example can have that name mean 127.0.0.1.
func (s *Server) foreign(r *http.Request) error {
	if err := s.ofOthers(r); err != nil {
		return err
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); s.names || s.access != nil || !ok || !at.IP.IsLoopback() {
		return nil
	}
	return unnamed(r)
}

// ofOthers says why a request comes from a page of another origin, or nil.
func (s *Server) ofOthers(r *http.Request) error {
	if err := s.pages.Check(r); err != nil {
		return fmt.Errorf("a page of another origin makes this request: %w", err)
	}
	return nil
}

// unnamed says why the Host of a request may be a name that others have made, or nil.
func unnamed(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "" || host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil {
		return nil
	}
	return fmt.Errorf("%q is a name for this machine that anybody can make: use localhost or its address, or give a list of callers (access), or say that everybody may (insecure)", host)
}

// clean reports whether the path is as it was written. ServeMux would send the caller
// elsewhere, to the lock of another name.
func clean(r *http.Request) bool {
	p := r.URL.EscapedPath()
	c := path.Clean(p)
	if strings.HasSuffix(p, "/") && c != "/" {
		c += "/"
	}
	return p == c
}

// Drain has waiting callers come again, to another Server of this service: each gets the
// end of its slice, and keeps its place. Call it before http.Server.Shutdown.
func (s *Server) Drain() { s.drain() }

// Close ends what is under way and closes the engine. It gives no claim back. Callers go
// on with another Server, and other claims end by their TTL.
func (s *Server) Close() error {
	s.Drain()
	s.end()
	s.watching.Wait()
	s.behind.Wait() // each is bounded
	return s.eng.Close()
}

// bound is the context of a call to the engine for a request.
func (s *Server) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, callBound, fmt.Errorf("the engine has not answered within %v", callBound))
}

// because is err of a call with this context, with the reason for which that ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
		return cause
	}
	return err
}

// afterwards is the context of a call that its request does not end.
func (s *Server) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.bound(context.WithoutCancel(ctx))
}

type renewed struct {
	claim engine.Claim
	err   error
}

// renew is a renewal among those that other callers ask for at the same time.
func (s *Server) renew(ctx context.Context, r engine.Renewal) (engine.Claim, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	a, err := s.renews.Do(ctx, r)
	if err == nil {
		err = a.err
	}
	return a.claim, err
}

func (s *Server) renewAlone(ctx context.Context, r engine.Renewal) renewed {
	got, err := s.eng.Renew(ctx, []engine.Renewal{r})
	return pick(got, err, r)
}

func (s *Server) renewMany(rs []engine.Renewal) []renewed {
	ctx, cancel := s.bound(context.Background())
	defer cancel()
	got, err := s.eng.Renew(ctx, rs)
	all := make([]renewed, len(rs))
	at := make(map[engine.ID]engine.Claim, len(got))
	for _, c := range got {
		at[c.ID] = c
	}
	for i, r := range rs {
		if c, ok := at[r.ID]; ok {
			all[i] = pick([]engine.Claim{c}, nil, r)
		} else {
			all[i] = pick(nil, err, r)
		}
	}
	return all
}

// pick is the answer to r among got.
func pick(got []engine.Claim, err error, r engine.Renewal) renewed {
	for _, c := range got {
		if c.ID == r.ID {
			return renewed{claim: c}
		}
	}
	if err == nil {
		err = errors.New("the engine's answer does not have the claim")
	}
	return renewed{err: err}
}

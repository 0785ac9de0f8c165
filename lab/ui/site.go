package main

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/service"
)

// prefix is the path under which a proxy would serve the service.
const prefix = "/tools/locks"

// site is a service on queues in memory, behind a path, whose engine and whose server can be
// away.
type site struct {
	engine.Engine // for claims
	store         *shaky
	url           string // of the pages, with a slash
	broken        atomic.Bool
	rendered      atomic.Int64 // the longest that a page took, in ns
	lives         atomic.Int64 // pages that a script fetched
	events        atomic.Int64 // streams that were opened
	open          atomic.Int64 // those of them that go on

	server  *http.Server
	service *service.Server
	over    chan struct{}
}

// shaky is an engine that can be away.
type shaky struct {
	engine.Engine
	away  atomic.Bool
	reads atomic.Int64
}

var errAway = errors.New("dial tcp 127.0.0.1:5432: connect: connection refused")

func (s *shaky) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	s.reads.Add(1)
	if s.away.Load() {
		return func(yield func(engine.Queue, error) bool) { yield(engine.Queue{}, errAway) }
	}
	return s.Engine.Queues(ctx, prefix)
}

func (s *shaky) Queue(ctx context.Context, name string) (engine.Queue, error) {
	if s.away.Load() {
		return engine.Queue{}, errAway
	}
	return s.Engine.Queue(ctx, name)
}

// serve starts a site.
func serve(access *service.Access) (*site, error) {
	store := memlock.NewStore(nil)
	s := &site{Engine: store.Engine(), store: &shaky{Engine: store.Engine()}, over: make(chan struct{})}
	var err error
	if s.service, err = service.New(s.store, &service.Options{Access: access}); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.service.Close())
	}
	s.url = "http://" + ln.Addr().String() + prefix + "/ui/"
	s.server = &http.Server{Handler: http.StripPrefix(prefix, s), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.over)
		_ = s.server.Serve(ln) // until Close
	}()
	return s, nil
}

// ServeHTTP is what stands before the service.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.broken.Load() {
		http.Error(w, "no server", http.StatusBadGateway)
		return
	}
	if r.URL.Path == "/ui/events" {
		s.events.Add(1)
		s.open.Add(1)
		defer s.open.Add(-1)
		s.service.ServeHTTP(w, r)
		return
	}
	if r.URL.Query().Has("live") {
		s.lives.Add(1)
	}
	began := time.Now()
	s.service.ServeHTTP(w, r)
	for took := time.Since(began).Nanoseconds(); ; {
		old := s.rendered.Load()
		if took <= old || s.rendered.CompareAndSwap(old, took) {
			return
		}
	}
}

// Close ends the site.
func (s *site) Close() error {
	s.service.Drain()
	err := errors.Join(s.server.Close(), s.service.Close(), s.Engine.Close())
	<-s.over
	return err
}

// person is who asks for a claim.
type person struct {
	host  string
	pid   int
	label string
}

// ask makes a claim that lasts an hour. It waits if the name is taken.
func (s *site) ask(ctx context.Context, name string, who person, permits, limit int32, ago time.Duration, holds ...engine.Claim) (engine.Claim, error) {
	owner := engine.Owner{Host: who.host, PID: who.pid, Label: who.label, Since: time.Now().Add(-ago)}
	for _, h := range holds {
		owner.Holds = append(owner.Holds, engine.Hold{Name: h.Name, Ticket: h.Ticket})
	}
	return s.Join(ctx, engine.Request{Name: name, ID: engine.NewID(), Owner: owner, Permits: permits, Limit: limit, WaitTTL: time.Hour, TTL: time.Hour})
}

// give gives a claim back.
func (s *site) give(ctx context.Context, c engine.Claim) error {
	_, err := s.Leave(ctx, []engine.Claim{c})
	return err
}

// parallel asks for many names at once.
func (s *site) parallel(ctx context.Context, n int, name func(int) string) error {
	var all sync.WaitGroup
	errs := make([]error, 8)
	for k := range errs {
		all.Go(func() {
			for i := k; i < n && errs[k] == nil; i += len(errs) {
				_, errs[k] = s.ask(ctx, name(i), person{"host", 1, "many"}, engine.Max, engine.Max, time.Minute)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

package ui

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"leasehold/engine"
)

// Source is what the pages show; a *leasehold.Client and every engine are one.
type Source interface {
	Queue(ctx context.Context, name string) (engine.Queue, error)
	Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error]
	Guarantees() engine.Guarantees
}

// Rights are what the caller of a request may see and do. A nil function allows nothing.
type Rights struct {
	Who    string                 // shown in pages; may be empty
	All    bool                   // every name is shown to them: the functions below are not asked
	Look   func(name string) bool // sees the name in lists, graphs and reasons
	Read   func(name string) bool // sees its own page
	Revoke func(name string) bool // may end claims on it

	// Same is equal for callers for whom Look is the same: pages then share what is computed
	// for them. Empty: it is computed for each page.
	Same string
}

func (r *Rights) look(name string) bool { return r.All || r.Look != nil && r.Look(name) }
func (r *Rights) read(name string) bool {
	return r.look(name) || r.Read != nil && r.Read(name)
}

// Options are the choices of a Handler. Every field but Source may be left out.
type Options struct {
	Source Source

	// Engine is what pages call the engine, such as its URL without secrets.
	Engine string

	// Rights returns what a caller may do, or an error that says why it may look at nothing.
	// Nil: everybody sees everything, and nobody may revoke.
	Rights func(*http.Request) (Rights, error)

	// Known reports whether the caller of a request that goes on may go on.
	Known func(*http.Request) bool

	// Revoke ends a claim, for a caller with that right. Nil: pages are read-only.
	Revoke func(ctx context.Context, name string, ticket uint64, now bool) error

	// Loopback refuses requests that call this machine by another name than localhost or a
	// loopback address: a page of others can have its own name mean this machine.
	Loopback bool

	// Every is the pause between two readings of the engine. Default 500 ms.
	Every time.Duration

	// Log gets what goes wrong with the engine. Nil: nothing is logged.
	Log *slog.Logger
}

// Handler answers requests for pages. It is an http.Handler for the paths below the one that
// it is mounted at, as http.StripPrefix leaves them, and safe for concurrent use.
type Handler struct {
	o      Options
	feed   *feed
	origin http.CrossOriginProtection
	mux    *http.ServeMux

	formWithin time.Duration // bounds the reading of a form
}

//go:embed static
var staticFiles embed.FS

// New returns a Handler. Run has it read the engine.
func New(o Options) *Handler {
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{o: o, feed: newFeed(o.Source, o.Every, o.Log), mux: http.NewServeMux(), formWithin: 10 * time.Second}
	h.mux.HandleFunc("GET /{$}", h.page(h.overview))
	h.mux.HandleFunc("GET /name", h.page(h.name))
	h.mux.HandleFunc("GET /graph", h.page(h.graph))
	h.mux.HandleFunc("GET /why", h.page(h.why))
	h.mux.HandleFunc("GET /revoke", h.page(h.askRevoke))
	h.mux.HandleFunc("POST /revoke", h.page(h.doRevoke))
	h.mux.HandleFunc("GET /events", h.events)
	static, _ := fs.Sub(staticFiles, "static") // the folder is embedded
	h.mux.Handle("GET /style.css", http.FileServerFS(static))
	h.mux.Handle("GET /script.js", http.FileServerFS(static))
	h.mux.Handle("GET /icon.svg", http.FileServerFS(static))
	h.mux.HandleFunc("/", h.page(func(*http.Request, *visit) (*answer, error) {
		return nil, &refusal{http.StatusNotFound, errors.New("there is no such page: begin at the overview")}
	}))
	return h
}

// Run reads the engine for the pages that are open, until ctx ends. Without it, or after it,
// pages show that the engine is not read.
func (h *Handler) Run(ctx context.Context) { h.feed.run(ctx) }

// policy allows what stands in files of this Handler, and nothing else: no inline script, no
// inline style, no other origin, no frame around it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "same-origin") // names stand in addresses; with no-referrer a POST would not say its origin
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if err := h.foreign(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// foreign says why a request comes from a page of others, or nil. Every browser says where a
// POST comes from, so one that does not say it is refused too.
func (h *Handler) foreign(r *http.Request) error {
	if err := h.origin.Check(r); err != nil {
		return fmt.Errorf("a page of another origin makes this request: %w", err)
	}
	if r.Method == http.MethodPost && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return errors.New("the request does not say from which page it comes (Origin): use a browser, or \"leasehold revoke\"")
	}
	if !h.o.Loopback {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is a name for this machine that anybody can make: use localhost or its address", host)
}

// visit is a request for a page, with what its caller may see.
type visit struct {
	Rights
	h    *Handler
	shot shot
	out  *http.ResponseController
}

// answer is a page to be rendered.
type answer struct {
	page   string
	title  string
	status int // 0: 200
	body   body
	still  bool // the script must not change it
	to     string
}

// refusal is an error that is a page.
type refusal struct {
	status int
	err    error
}

func (e *refusal) Error() string { return e.err.Error() }

// frame is what all pages have.
type frame struct {
	Page, Title, Engine, Who string
	Version                  uint64
	State                    stateView
	Still                    bool
	Body                     body
}

// body is what a page has of its own.
type body interface {
	write(*markup, *stateView)
}

// page answers with what f returns.
func (h *Handler) page(f func(*http.Request, *visit) (*answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{h: h, Rights: Rights{All: true}, out: http.NewResponseController(w)}
		var a *answer
		var err error
		if h.o.Rights != nil {
			v.Rights, err = h.o.Rights(r)
		}
		if err != nil {
			err = &refusal{http.StatusForbidden, err}
		} else {
			if v.shot = h.feed.fresh(r.Context()); v.shot.why != "" && !v.All {
				v.shot.why = "ask the owner of the service for the reason" // the error may have any name
			}
			a, err = f(r, v)
		}
		if err != nil {
			a = &answer{page: "problem", title: "Not shown", status: http.StatusInternalServerError, body: problem(err.Error()), still: true}
			if no, is := errors.AsType[*refusal](err); is {
				// What the engine did not answer it may answer later. A form is sent once.
				later := no.status == http.StatusServiceUnavailable || no.status == http.StatusBadGateway
				a.status, a.still = no.status, r.Method == http.MethodPost || !later
			}
		}
		if a.to != "" {
			// Relative, so that it holds under the path of any proxy: http.Redirect would
			// make it absolute.
			w.Header().Set("Location", a.to)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		page := frame{
			Page: a.page, Title: a.title, Engine: h.o.Engine, Who: v.Who, Version: v.shot.version,
			State: v.shot.view(), Still: a.still, Body: a.body,
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		v.out.SetWriteDeadline(time.Now().Add(writeWithin)) // a recorder of a test has none
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		io.WriteString(w, page.page()) // a caller that went does not read it
	}
}

// writeWithin bounds an answer to a caller that reads slowly.
const writeWithin = 30 * time.Second

package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"
)

// RunOptions are the choices of Run. The zero value is for a listener that only this machine
// reaches.
type RunOptions struct {
	// Cert and Key are files in PEM for TLS. ClientCA is one with the authorities of client
	// certificates; with it every client must have one. All are read again when they
	// change.
	Cert, Key, ClientCA string

	// Insecure allows a listener that other machines reach without TLS, or without Access.
	// Without it and without Access, a request to this machine must call it localhost or by
	// its address.
	Insecure bool

	// Pprof adds /debug/pprof/ for callers on this machine, without Access. A proxy on this
	// machine passes on what all others ask for there: have it refuse that path.
	Pprof bool

	// Ready, unless nil, is called once Run has found no reason to refuse ln and begins to
	// serve.
	Ready func()

	// Patience bounds how long Run waits for requests under way when ctx ends. Those that
	// wait for a lock end at once, with their place. Default 10 s.
	Patience time.Duration
}

// Bounds of connections: who is slower than these is cut off, and a header that is larger
// is refused.
const (
	headerWithin = 5 * time.Second
	bodyWithin   = 10 * time.Second
	answerWithin = 30 * time.Second
	idleFor      = 2 * time.Minute
	maxHeader    = 32 << 10
)

// Listen opens a listener: on host:port, or on a Unix socket (unix:/path), which only this
// user can open. A socket that a dead process left is replaced.
func Listen(addr string) (net.Listener, error) {
	path, unix := strings.CutPrefix(addr, "unix:")
	if !unix {
		return net.Listen("tcp", addr)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("listen on %s: a process listens there already", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		os.Remove(path)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// Run serves on ln until ctx ends, drains and closes the Server. It refuses a listener that
// other machines reach without TLS and Access, unless o.Insecure.
func (s *Server) Run(ctx context.Context, ln net.Listener, o RunOptions) error {
	if err := s.exposed(ln.Addr(), o); err != nil {
		return errors.Join(err, ln.Close(), s.Close())
	}
	s.names = o.Insecure
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader,
		Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000, SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
			WriteByteTimeout: answerWithin, // who reads nothing at all: no deadline of a stream ends that
		},
	}
	h.Protocols.SetHTTP1(true)
	if o.Pprof {
		h.Handler = s.withPprof()
	}
	if o.Cert != "" {
		files, err := loadFiles(o.Cert, o.Key, o.ClientCA, func(err error) {
			s.certs.note(s.log, "the certificates cannot be read: the last good ones are used", err)
		})
		if err != nil {
			return errors.Join(err, ln.Close(), s.Close())
		}
		h.Protocols.SetHTTP2(true)
		h.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: files.config}
	} else {
		h.Protocols.SetUnencryptedHTTP2(true)
	}
	if o.Ready != nil {
		o.Ready()
	}
	served := make(chan error, 1)
	go func() {
		if o.Cert != "" {
			served <- h.ServeTLS(ln, "", "")
		} else {
			served <- h.Serve(ln)
		}
	}()
	var err error
	select {
	case err = <-served: // the listener broke
	case <-ctx.Done():
		s.Drain()
		patience := o.Patience
		if patience == 0 {
			patience = 10 * time.Second
		}
		bounded, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if h.Shutdown(bounded) != nil {
			h.Close() // who is cut off learns of it
		}
		<-served
	}
	return errors.Join(err, s.Close())
}

// exposed says why ln must not be served as it is, or nil.
func (s *Server) exposed(addr net.Addr, o RunOptions) error {
	if o.Cert == "" && (o.Key != "" || o.ClientCA != "") {
		return errors.New("a key or a client's authority without a certificate: give all of TLS, or none")
	}
	tcp, is := addr.(*net.TCPAddr)
	if o.Insecure || !is || tcp.IP.IsLoopback() {
		return nil
	}
	switch {
	case o.Cert == "":
		return fmt.Errorf("other machines reach %s, and without TLS everybody on the way reads what authorises: give a certificate and a key, listen on 127.0.0.1, or say that the way is safe (insecure)", addr)
	case s.access == nil:
		return fmt.Errorf("other machines reach %s, and without a list of callers everybody may do everything: give one (access), listen on 127.0.0.1, or say that everybody there may (insecure)", addr)
	}
	return nil
}

// embedded says why a page of others makes a request that reads, or nil: a profile takes time.
func embedded(r *http.Request) error {
	if from := r.Header.Get("Sec-Fetch-Site"); from != "" && from != "none" && from != "same-origin" {
		return fmt.Errorf("a page of another origin makes this request (%s)", from)
	}
	return nil
}

// withPprof serves profiles to callers on this machine, and to no page of others in a browser.
func (s *Server) withPprof() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if !strings.HasPrefix(r.URL.Path, "/debug/pprof/") || !net.ParseIP(host).IsLoopback() {
			s.ServeHTTP(w, r)
			return
		}
		if err := cmp.Or(s.ofOthers(r), unnamed(r), embedded(r)); err != nil {
			refuse(w, http.StatusForbidden, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

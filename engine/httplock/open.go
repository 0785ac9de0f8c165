package httplock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"leasehold/engine"
	"leasehold/engine/engineurl"
	"leasehold/internal/remote"
)

// pingAfter and pingWithin bound how long a connection that is dead unnoticed is used: a
// ping goes over one that has been silent, and its answer must come.
const (
	pingAfter  = 3 * time.Second
	pingWithin = 3 * time.Second
)

// maxBrief bounds the connections of HTTP/1.1 to one server: another Join or Leave waits for
// one. 64 goroutines with names of their own reached 8,400 pairs/s with 64 connections, and 256
// of them 6,000 with 256.
const maxBrief = 64

// Open connects to the service of a URL (see the package documentation).
//
// It returns an error that is [engine.ErrURL] for a wrong URL, [engine.ErrRefused] if the
// service does not know this client or has another version, and any other if no address
// answers.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	e, err := newEngine(rawURL)
	if err != nil {
		return nil, fmt.Errorf("httplock: %w: %w", engine.ErrURL, err)
	}
	var last error
	for range e.bases {
		var o remote.Opening
		if last = e.call(ctx, e.shared, remote.PathOpen, struct{}{}, &o); last == nil {
			if o.Version != remote.Version {
				e.Close()
				return nil, engine.Refuse("httplock: the service speaks version %d of these calls, and this program %d: use the same release of leasehold on both sides", o.Version, remote.Version)
			}
			e.grants, e.checks = o.Guarantees, o.Checks
			if o.Checks {
				return &checking{e}, nil
			}
			return e, nil
		}
		if ctx.Err() != nil || errors.Is(last, engine.ErrRefused) {
			break
		}
	}
	e.Close()
	return nil, fmt.Errorf("httplock: %w", last)
}

func newEngine(rawURL string) (*Engine, error) {
	u, err := engineurl.Parse(rawURL, "https", "http")
	if err != nil {
		return nil, err
	}
	if err := u.Only("ca", "cert", "key", "token-file", "insecure"); err != nil {
		return nil, err
	}
	if u.User != "" {
		return nil, errors.New("the URL has a user: a token stands after a colon (https://:TOKEN@host), or in the file of token-file=")
	}
	if u.Path != "" {
		return nil, fmt.Errorf("the URL has the path %q: give the address of the service alone", u.Path)
	}
	secure := u.Scheme == "https"
	hosts, err := u.Hosts(map[bool]string{true: "443", false: "80"}[secure])
	if err != nil {
		return nil, err
	}
	token := u.Password
	if file := u.Params.Get("token-file"); file != "" {
		if token, err = engineurl.Secret(file); err != nil {
			return nil, err
		}
	}
	var secrets *tls.Config
	if secure {
		if secrets, err = engineurl.TLS(u.Params); err != nil {
			return nil, err
		}
	} else {
		if err := u.NoTLS("https://"); err != nil {
			return nil, err
		}
		var insecure bool
		if err := engineurl.Bool(u.Params, "insecure", &insecure); err != nil {
			return nil, err
		}
		for _, host := range hosts {
			if !insecure && !loopback(host) {
				return nil, fmt.Errorf("http:// to %s is readable on the way, with all that authorises: use https://, or ?insecure if the way is safe", host)
			}
		}
	}
	e := &Engine{client: engine.NewID().Secret(), token: token, began: time.Now(), livesWithin: livesWithin}
	for _, host := range hosts {
		e.bases = append(e.bases, u.Scheme+"://"+host)
	}
	e.at.Store(e.newCourse(0))
	e.life, e.end = context.WithCancel(context.Background())
	http1 := func(p *http.Protocols) { p.SetHTTP1(true) }
	e.brief, e.probe = e.over(secrets, maxBrief, http1), e.over(secrets, 0, http1)
	e.shared = e.over(secrets, 0, func(p *http.Protocols) {
		p.SetHTTP1(secure) // where something between the two ends speaks no other
		p.SetHTTP2(secure)
		p.SetUnencryptedHTTP2(!secure)
	})
	return e, nil
}

// over returns a client of some protocols, with connections of its own: most to one server, or
// as many as it takes.
func (e *Engine) over(secrets *tls.Config, most int, choose func(*http.Protocols)) *http.Client {
	t := &http.Transport{
		DialContext:           e.dial,
		TLSClientConfig:       secrets.Clone(),
		Protocols:             new(http.Protocols),
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWithin},
		MaxIdleConnsPerHost:   maxBrief,
		MaxConnsPerHost:       most,
		IdleConnTimeout:       time.Minute, // the service waits longer
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 15 * time.Second, // longer than the service takes for any call
	}
	choose(t.Protocols)
	return &http.Client{Transport: t, CheckRedirect: noRedirect}
}

// dial connects. Close of the engine closes the connection, whatever is under way on it: the
// transport itself would close only those on which nothing is.
func (e *Engine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{c, context.AfterFunc(e.life, func() { c.Close() })}, nil
}

type conn struct {
	net.Conn
	forget func() bool
}

func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// loopback reports whether an address is on this machine for certain.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return cmp.Or(host == "localhost", ip != nil && ip.IsLoopback())
}

// noRedirect: who answers so is not the service, and would get the token.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

package service

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// Verb is what a caller may do with a name.
type Verb string

const (
	Lock   Verb = "lock"   // obtain, renew and give back, and read the queue of that name
	Look   Verb = "look"   // read queues
	Revoke Verb = "revoke" // end claims of others
)

// Access says which callers a Server knows and what they may do. It is read from a file
// and read again when that changes. Each line is a caller:
//
//	NAME  CREDENTIAL  VERBS  PREFIX...
//
// CREDENTIAL is sha256:HEX, the hash of a bearer token ([NewToken] makes both), or
// cert:COMMON-NAME, the subject of a client's certificate, which TLS has verified (a space is
// %20). VERBS is a list such as lock,look,revoke. A name may be used if it begins with one of the
// prefixes; * stands for every name. Empty lines and lines that begin with # say nothing.
type Access struct {
	file string

	mu    sync.Mutex
	read  time.Time // when the file was last looked at
	stamp string    // of the file that was read
	known []*caller
	wrong error // why the file as it is now is not the one that counts
}

// problem is why the last good version of the file counts, if it is not the newest.
func (a *Access) problem() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wrong
}

// recheck is how old knowledge of the file may be.
const recheck = time.Second

// settled is how long nobody has written to a file that is read again.
const settled = time.Second

// LoadAccess reads a file. It returns an error for a line that it cannot understand. If a
// later version of the file cannot be read, the last good one stays in force, for requests
// that its callers make: a file that is gone locks nobody out of a release.
func LoadAccess(file string) (*Access, error) {
	a := &Access{file: file}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Access) load() error {
	info, err := os.Stat(a.file)
	if err != nil {
		return fmt.Errorf("read who may do what: %w", err)
	}
	stamp := fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	if age := time.Since(info.ModTime()); stamp == a.stamp || a.known != nil && age >= 0 && age < settled {
		return nil // nothing new, or perhaps half of it: what is being written lacks callers
	}
	text, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("read who may do what: %w", err)
	}
	known, err := parseAccess(text)
	if err != nil {
		return fmt.Errorf("%s: %w", a.file, err)
	}
	a.stamp, a.known = stamp, known
	return nil
}

func parseAccess(text []byte) (all []*caller, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	names := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 4 {
			return nil, fmt.Errorf("line %d has %d words: write NAME CREDENTIAL VERBS PREFIX", n, len(fields))
		}
		c := &caller{name: fields[0], prefixes: fields[3:]}
		if names[c.name] {
			return nil, fmt.Errorf("line %d has the name %q once more: give each line a name of its own", n, c.name)
		}
		names[c.name] = true
		kind, what, _ := strings.Cut(fields[1], ":")
		switch kind {
		case "sha256":
			hash, err := hex.DecodeString(what)
			if err != nil || len(hash) != sha256.Size {
				return nil, fmt.Errorf("line %d has no SHA-256 of 64 hexadecimal digits: take the line that \"leasehold token\" prints", n)
			}
			c.hash = hash
		case "cert":
			if c.common, err = url.PathUnescape(what); err != nil || what == "" {
				return nil, fmt.Errorf("line %d has no common name after cert: (a space is %%20)", n)
			}
		default:
			return nil, fmt.Errorf("line %d has a credential of an unknown kind: write sha256:HEX or cert:COMMON-NAME", n)
		}
		for verb := range strings.SplitSeq(fields[2], ",") {
			switch v := Verb(verb); v {
			case Lock, Look, Revoke:
				c.verbs = append(c.verbs, v)
			default:
				return nil, fmt.Errorf("line %d has the verb %q: known are lock, look, revoke", n, verb)
			}
		}
		all = append(all, c)
	}
	return all, lines.Err()
}

// NewToken returns a bearer token and the credential that stands for it in a file of
// [Access].
func NewToken() (token, credential string) {
	id, more := engine.NewID(), engine.NewID()
	token = "lht_" + id.Secret() + more.Secret()
	hash := sha256.Sum256([]byte(token))
	return token, "sha256:" + hex.EncodeToString(hash[:])
}

// caller is somebody who makes requests.
type caller struct {
	name     string
	hash     []byte
	common   string
	verbs    []Verb
	prefixes []string
	all      bool   // may do everything
	secret   []byte // what only this caller and the Servers know; nil without a token
}

// may returns nil if the caller may do that, and otherwise who cannot do what.
func (c *caller) may(v Verb, name string) error {
	if c.all {
		return nil
	}
	for _, verb := range c.verbs {
		if verb != v {
			continue
		}
		for _, p := range c.prefixes {
			if p == "*" || strings.HasPrefix(name, p) {
				return nil
			}
		}
	}
	return &notAllowed{c.name, v, name}
}

// sees is a queue as the caller may see it. Who may lock a name may read its queue.
func (c *caller) sees(q engine.Queue) engine.Queue {
	if c.all {
		return q
	}
	return view.Without(q, func(name string) bool { return c.may(Look, name) != nil && c.may(Lock, name) != nil })
}

// notAllowed is final for the core: it is an engine.ErrRefused.
type notAllowed struct {
	caller string
	verb   Verb
	name   string
}

func (e *notAllowed) Error() string {
	return fmt.Sprintf("%s may not %s %q: ask the owner of the service for that right", e.caller, e.verb, e.name)
}

func (e *notAllowed) Unwrap() error { return engine.ErrRefused }

// still is why the caller of a request that has waited may not do that any more, or nil.
func (s *Server) still(r *http.Request, v Verb, name string) error {
	now, err := s.access.caller(r)
	if err != nil {
		return &notAllowed{callerOf(r.Context()).name, v, name}
	}
	return now.may(v, name)
}

// caller is who makes a request. Without Access that is anybody, known by the address.
func (a *Access) caller(r *http.Request) (*caller, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	nobody := &caller{name: host}
	if a == nil {
		nobody.all = true
		return nobody, nil
	}
	a.mu.Lock()
	if time.Since(a.read) >= recheck {
		a.read = time.Now()
		a.wrong = a.load() // the last good one stays in force
	}
	known := a.known
	a.mu.Unlock()

	token, sent := bearerOf(r)
	if sent && strings.HasPrefix(token, handlePrefix) && takesHandle(r) {
		// It is worth its own claim and nothing else. See Server.handle.
		return nobody, nil
	}
	if sent {
		hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
		for _, c := range known {
			if c.hash != nil && subtle.ConstantTimeCompare(c.hash, hash[:]) == 1 {
				with := *c
				with.secret = secretOf(token)
				return &with, nil
			}
		}
		return nobody, errors.New("the service does not know this token: ask its owner for one")
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		common := r.TLS.PeerCertificates[0].Subject.CommonName
		for _, c := range known {
			if c.common != "" && c.common == common {
				return c, nil
			}
		}
		return nobody, fmt.Errorf("the service does not know the certificate of %q: ask its owner for access", common)
	}
	return nobody, errors.New("this request says nobody who makes it: send a token (Authorization: Bearer ...) or a client's certificate")
}

// secretOf is of what the IDs of a caller's claims are made: not the hash of its token, which every
// reader of the list knows.
func secretOf(token string) []byte {
	secret := sha256.Sum256([]byte("leasehold claims\x00" + strings.TrimSpace(token)))
	return secret[:]
}

// bearerOf is the token that a request has. Terraform can send one only as the password of HTTP
// Basic, so on that path it may, with any username. For pages the dashboard takes one itself. No
// other request may: browsers keep such passwords, and send them with requests that pages of others
// make.
func bearerOf(r *http.Request) (token string, sent bool) {
	if strings.HasPrefix(r.URL.Path+"/", PathTofu) {
		if _, password, basic := r.BasicAuth(); basic {
			return password, true
		}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, strings.EqualFold(scheme, "Bearer")
}

// takesHandle reports whether a request is one that a handle authorises. Anybody can write
// what looks like one.
func takesHandle(r *http.Request) bool {
	path := r.URL.Path
	return (r.Method == http.MethodPut || r.Method == http.MethodDelete) && (path == "/v1/locks" || strings.HasPrefix(path, "/v1/locks/"))
}

type callerKey struct{}

func withCaller(ctx context.Context, c *caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// CheckAccess says what is wrong with a text that is to be a file of [Access], or nil.
func CheckAccess(text string) error {
	_, err := parseAccess([]byte(text))
	return err
}

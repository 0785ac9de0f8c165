package certmagiclock_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"go.uber.org/goleak"
	"leasehold"
	"leasehold/engine/redis"
	"leasehold/internal/child"
	"leasehold/with/certmagiclock"
)

const (
	role = "CERTMAGICLOCK_TEST_CHILD" // "acme", or "site engine folder directory certificate"
	ttl  = 6 * time.Second
	// generous bounds every wait: it ends by an event.
	generous = 60 * time.Second
)

func TestMain(m *testing.M) {
	var err error
	switch f := strings.Fields(os.Getenv(role)); {
	case len(f) == 0:
		goleak.VerifyTestMain(m)
		return
	case f[0] == "acme":
		err = acmeServer()
	default:
		err = site(context.Background(), f[1], f[2], f[3], f[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// acmeServer is a Pebble. It prints its directory and its certificate, and a line for each order and each request to
// finalize one. With the line "hold" the first of the latter has no answer until its client goes.
func acmeServer() error {
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {}}
	authority := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
	front := wfe.New(quiet, store, va.New(quiet, 1, 1, false, "", store), authority, []string{"localhost"}, false, false, 1, 1)
	inner := front.Handler()
	var mu sync.Mutex
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(line)
	}
	var hold atomic.Bool
	// The protocol demands TLS.
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/order-plz":
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			say("order " + orderOf(body))
		case strings.HasPrefix(r.URL.Path, "/finalize-order/"):
			holds := hold.CompareAndSwap(true, false)
			if holds {
				io.ReadAll(r.Body) // net/http sees the end of the client after that
				say("held")
				<-r.Context().Done()
				say("gone")
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = quiet
	say(s.URL + wfe.DirectoryPath + " " + base64.StdEncoding.EncodeToString(s.Certificate().Raw))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		hold.Store(in.Text() == "hold")
		say("ready")
	}
	return nil
}

// orderOf returns the names that a request for an order is about.
func orderOf(body []byte) string {
	var jws struct{ Payload string }
	var order struct{ Identifiers []struct{ Value string } }
	err1 := json.Unmarshal(body, &jws)
	payload, err2 := base64.RawURLEncoding.DecodeString(jws.Payload)
	err3 := json.Unmarshal(payload, &order)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err.Error()
	}
	var names []string
	for _, i := range order.Identifiers {
		names = append(names, i.Value)
	}
	return strings.Join(names, ",")
}

// site is one process that obtains a certificate for each domain that it is told, all at once. It
// prints what CertMagic reports: "cert_obtaining NAME" is said under the lock.
func site(ctx context.Context, url, folder, directory, certificate string) error {
	raw, err := base64.StdEncoding.DecodeString(certificate)
	if err != nil {
		return err
	}
	root, err := x509.ParseCertificate(raw)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	eng, err := redis.Open(ctx, url)
	if err != nil {
		return err
	}
	locks, err := leasehold.New(eng, &leasehold.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer locks.Close()
	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: folder}, locks, nil)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(line)
	}
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil },
	})
	defer cache.Stop()
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: storage,
		OnEvent: func(_ context.Context, event string, data map[string]any) error {
			say(fmt.Sprintf("%s %v", event, data["identifier"]))
			return nil
		},
	})
	cfg.Issuers = []certmagic.Issuer{storage.Issuer(certmagic.NewACMEIssuer(cfg, certmagic.ACMEIssuer{
		CA: directory, TrustedRoots: roots, Email: "you@example.com", Agreed: true,
		DisableTLSALPNChallenge: true, ListenHost: "127.0.0.1", AltHTTPPort: port,
	}))}
	say("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for _, domain := range strings.Fields(in.Text()) {
			go func() {
				// Despite its name it returns when there is a certificate; it is not
				// interactive and tries again.
				err := cfg.ObtainCertAsync(ctx, domain)
				say(fmt.Sprintf("done %s %v", domain, err))
			}()
		}
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// process is a child and what it has printed.
type process struct {
	*child.Process

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed at the next line
}

func start(t *testing.T, args string, line func(string)) *process {
	t.Helper()
	p := &process{more: make(chan struct{})}
	env := []string{role + "=" + args, "PEBBLE_VA_ALWAYS_VALID=1", "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0"}
	var err error
	p.Process, err = child.Start(nil, env, func(text string) {
		p.mu.Lock()
		p.lines = append(p.lines, text)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
		if line != nil {
			line(text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s printed %q and said %v", strings.Fields(args)[0], p.lines, p.Wait())
		}
	})
	return p
}

// wait returns the first line that begins so.
func (p *process) wait(t *testing.T, begin string) string {
	t.Helper()
	end := time.After(generous)
	for {
		p.mu.Lock()
		more := p.more
		for _, line := range p.lines {
			if strings.HasPrefix(line, begin) {
				p.mu.Unlock()
				return line
			}
		}
		p.mu.Unlock()
		select {
		case <-more:
		case <-p.Ended():
			t.Fatalf("the process ended before it printed %q: %v", begin, p.Wait())
		case <-end:
			t.Fatalf("the process does not print %q", begin)
		}
	}
}

// count returns how many lines begin so.
func (p *process) count(begin string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if strings.HasPrefix(line, begin) {
			n++
		}
	}
	return n
}

func (p *process) say(t *testing.T, text string) {
	t.Helper()
	if err := p.Say(text); err != nil {
		t.Fatal(err)
	}
}

package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/engine/httplock"
	"leasehold/lab/servers"
)

// run starts a Server on a listener, as the command line does.
func run(t *testing.T, s *Server, addr string, o RunOptions) (at net.Addr, end func() error) {
	t.Helper()
	ln, err := Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, ln, o) }()
	over := false
	end = func() error {
		if over {
			return nil
		}
		over = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr(), end
}

func server(t *testing.T, o *Options) *Server {
	t.Helper()
	s, err := New(store(t).Engine(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Other machines get in only with TLS and a list of callers, unless somebody says so.
func TestAnExposedListenerIsRefused(t *testing.T) {
	certs := servers.MakeCerts(t)
	withTLS := RunOptions{Cert: certs.Cert, Key: certs.Key}
	for _, c := range []struct {
		what   string
		addr   string
		access *Access
		o      RunOptions
		says   string
	}{
		{"plain, everywhere", "0.0.0.0:0", nil, RunOptions{}, "without TLS"},
		{"TLS alone", "0.0.0.0:0", nil, withTLS, "list of callers"},
		{"a list alone", "0.0.0.0:0", access(t), RunOptions{}, "without TLS"},
		{"a key without a certificate", "127.0.0.1:0", nil, RunOptions{Key: certs.Key}, "all of TLS"},
		{"a certificate that is none", "127.0.0.1:0", nil, RunOptions{Cert: os.DevNull, Key: os.DevNull}, "read the certificate"},
	} {
		ln, err := Listen(c.addr)
		if err != nil {
			t.Fatal(err)
		}
		c.o.Ready = func() { t.Errorf("%s: it is said to be ready", c.what) }
		if err := server(t, &Options{Access: c.access}).Run(t.Context(), ln, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
	both := withTLS
	run(t, server(t, &Options{Access: access(t)}), "0.0.0.0:0", both)
	run(t, server(t, nil), "0.0.0.0:0", RunOptions{Insecure: true})
}

// Certificates are read again when they change, and clients of mutual TLS are known by
// their names.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	old, fresh := servers.MakeCerts(t), servers.MakeCerts(t)
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
	put := func(c servers.Certs) {
		for to, from := range map[string]string{cert: c.Cert, key: c.Key, ca: c.CA} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(old)
	name := commonName(t, old)
	at, _ := run(t, server(t, &Options{Access: access(t, "known cert:"+url.PathEscape(name)+" lock,look *")}), "127.0.0.1:0", RunOptions{Cert: cert, Key: key, ClientCA: ca})
	_, port, _ := net.SplitHostPort(at.String())
	opens := func(server, client servers.Certs) error {
		e, err := httplock.Open(t.Context(), fmt.Sprintf("https://127.0.0.1:%s?ca=%s&cert=%s&key=%s", port, server.CA, client.Cert, client.Key))
		if err == nil {
			e.Close()
		}
		return err
	}
	if err := opens(old, old); err != nil {
		t.Fatal(err)
	}
	if err := opens(old, fresh); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
	put(fresh)
	until(t, "the new certificate is not used", func() bool { return opens(fresh, fresh) == nil })
	if err := opens(old, old); err == nil {
		t.Error("the old certificate is used")
	}
}

func commonName(t *testing.T, c servers.Certs) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.Subject.CommonName
}

func TestASocketIsReplacedIfNobodyListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	run(t, server(t, nil), "unix:"+path, RunOptions{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v, want only this user", info.Mode(), err)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	a, err := c.Post("http://locks/v1/locks/a", "application/json", nil)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", a, err)
	}
	a.Body.Close()
	if _, err := Listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "listens there already") {
		t.Errorf("a second server: %v", err)
	}
}

// A server that ends answers those who wait, and is not ready meanwhile.
func TestTheEndIsGraceful(t *testing.T) {
	t.Parallel()
	st := store(t)
	s, err := New(st.Engine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at, end := run(t, s, "127.0.0.1:0", RunOptions{})
	base := "http://" + at.String()
	held := send(t, "POST", base+"/v1/locks/a", `{}`)
	held.want(t, 200, "held")
	waits := make(chan reply, 1)
	go func() {
		r, _ := try(context.Background(), "POST", base+"/v1/locks/a", `{"wait": "25s"}`, keyed("waits")...)
		waits <- r
	}()
	until(t, "it does not wait", func() bool { return len(send(t, "GET", base+"/v1/queues/a", "").Claims) == 2 })
	if r := send(t, "GET", base+"/readyz", ""); r.status != 200 {
		t.Errorf("it is not ready: %s", r.text)
	}
	s.Drain()
	r := <-waits
	r.want(t, 202, "waiting")
	if r := send(t, "GET", base+"/readyz", ""); r.status != 503 {
		t.Errorf("it is ready at its end: %s", r.text)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	// Claims outlive it.
	_, base = plainly(t, st.Engine(), nil)
	if r := send(t, "PUT", base+"/v1/locks/a", ``, bearer(held)...); r.status != 200 {
		t.Errorf("the holder lost it: %s", r.text)
	}
}

// Callers who send or read slowly are cut off, and others are served meanwhile.
func TestSlowCallersAreCutOff(t *testing.T) {
	t.Parallel()
	at, _ := run(t, server(t, nil), "127.0.0.1:0", RunOptions{})
	slow := map[string]string{
		"a header":            "POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n",
		"a body":              "POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
		"a body nobody reads": "GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
		"chunks nobody reads": "DELETE /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"what follows JSON":   "POST /v1/locks/c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"the body of a watch": "GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
		"the body of a call":  "POST /v1/engine/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
		"what follows a call": "POST /v1/engine/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{}",
		"the body of a LOCK":  "LOCK /v1/tofu/d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
		"a PUT by a stranger": "PUT /v1/locks/e HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + handlePrefix + "x\r\nContent-Length: 100\r\n\r\n{}",
	}
	ended := make(chan string, len(slow))
	for what, begin := range slow {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, begin)
		go func() {
			io.Copy(io.Discard, c)
			ended <- what
		}()
	}
	if r := send(t, "POST", "http://"+at.String()+"/v1/locks/b", `{}`); r.status != 200 {
		t.Errorf("another caller: %s", r.text)
	}
	deadline := time.After(60 * time.Second)
	for len(slow) > 0 {
		select {
		case what := <-ended:
			delete(slow, what)
		case <-deadline:
			t.Fatalf("slow callers are not cut off: %q", slow)
		}
	}
	big := "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go io.WriteString(c, big)
	answer := make([]byte, 12)
	if _, err := io.ReadFull(c, answer); err == nil && string(answer) != "HTTP/1.1 431" {
		t.Errorf("a header of a million bytes: %s", answer)
	}
}

// A page of others, in a browser on this machine, gets no profile: not by a name that it has made
// for this machine, nor by an image in it.
func TestProfilesAreForNoPageOfOthers(t *testing.T) {
	at, _ := run(t, server(t, &Options{Access: access(t)}), "127.0.0.1:0", RunOptions{Pprof: true})
	for _, c := range []struct {
		header, value string
		status        int
	}{
		{"Accept", "*/*", 200}, {"Sec-Fetch-Site", "none", 200}, {"Sec-Fetch-Site", "same-origin", 200},
		{"Host", "evil.example", 403}, {"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403},
	} {
		if r := send(t, "GET", "http://"+at.String()+"/debug/pprof/cmdline", "", c.header, c.value); r.status != c.status {
			t.Errorf("%s %s: %d, want %d", c.header, c.value, r.status, c.status)
		}
	}
}

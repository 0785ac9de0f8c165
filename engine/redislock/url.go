package redislock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// Open connects to the Redis that a URL names and returns an engine on it. The
// package documentation lists the forms and parameters. No error of it shows a
// password. ctx bounds the opening only.
//
// Errors: a malformed URL, a server that cannot be reached or is no Redis, a
// wrong password, a server that is unfit ([Options.AllowEviction], a replica,
// one node of a Cluster).
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	client, err := dial(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("redislock: %s: %w", strings.Join(u.client.InitAddress, ","), err)
	}
	if u.cluster && client.Mode() != rueidis.ClientModeCluster {
		client.Close()
		return nil, fmt.Errorf("redislock: %s is not part of a Cluster: use redis://", u.client.InitAddress[0])
	}
	if u.plain {
		p, err := newPlain(ctx, client, &u.client, &u.options)
		if err != nil {
			client.Close()
			return nil, err
		}
		return p, nil
	}
	e, err := newLines(ctx, client, &u.client, &u.options)
	if err != nil {
		client.Close()
		return nil, err
	}
	return e, nil
}

// target is what a URL says.
type target struct {
	client  rueidis.ClientOption
	options Options
	plain   bool
	cluster bool
}

// Time-outs of the connections that Open makes. A lock must notice a dead
// connection well within a TTL; a busy server must not be taken for dead.
const (
	dialTimeout  = 3 * time.Second
	replyTimeout = 5 * time.Second
	pingInterval = 5 * time.Second // of a connection that is idle
)

// buffer is what each connection reads and writes through. rueidis takes half a
// mebibyte for large values; ours are small.
const buffer = 32 << 10

var schemes = map[string]struct {
	tls  bool
	form string // standalone, unix, sentinel, cluster
}{
	"redis": {false, "standalone"}, "rediss": {true, "standalone"},
	"valkey": {false, "standalone"}, "valkeys": {true, "standalone"},
	"unix": {false, "unix"}, "redis+unix": {false, "unix"},
	"redis-sentinel": {false, "sentinel"}, "rediss-sentinel": {true, "sentinel"},
	"redis-cluster": {false, "cluster"}, "rediss-cluster": {true, "cluster"},
}

// parseURL reads the URL itself instead of using net/url for all of it: that
// knows no lists of hosts, and its errors quote the URL with the password.
func parseURL(raw string) (t target, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	kind, known := schemes[strings.ToLower(scheme)]
	if !ok || !known {
		return t, errors.New("this is not a Redis URL: redis://, rediss://, unix://, redis-sentinel:// and redis-cluster:// are (valkey:// too)")
	}
	rest, query, _ := strings.Cut(rest, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return t, errors.New("what follows ? in the URL cannot be read: write special characters as %xx")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, both := strings.Cut(authority[:i], ":")
		authority = authority[i+1:]
		name, err1 := url.PathUnescape(user)
		secret, err2 := url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return t, errors.New("user or password in the URL cannot be read: write special characters as %xx")
		}
		t.client.Username, t.client.Password = name, secret
		if name != "" && !both {
			return t, errors.New("the URL names a user without a password: write user:password@, or :password@ for the default user")
		}
	}
	if path, err = url.PathUnescape(path); err != nil {
		return t, errors.New("the path of the URL cannot be read: write special characters as %xx")
	}
	o := &t.client
	*o = rueidis.ClientOption{
		Username: o.Username, Password: o.Password,
		DisableCache: true, ClientName: "leasehold", ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:           net.Dialer{Timeout: dialTimeout, KeepAlive: pingInterval},
		ConnWriteTimeout: replyTimeout, ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		BlockingPoolSize: 64, BlockingPoolCleanup: time.Minute, BlockingPoolMinSize: 1,
	}
	if kind.form != "unix" {
		if o.InitAddress, err = hosts(authority, map[bool]string{true: "26379", false: "6379"}[kind.form == "sentinel"]); err != nil {
			return t, err
		}
	}
	if kind.tls {
		if o.TLSConfig, err = tlsConfig(q); err != nil {
			return t, err
		}
	}
	if err := t.form(kind.form, authority, path, q); err != nil {
		return t, err
	}
	return t, t.parameters(q)
}

// form sets what the four kinds of server differ in.
func (t *target) form(form, authority, path string, q url.Values) (err error) {
	o := &t.client
	db := q.Get("db")
	switch form {
	case "standalone":
		if len(o.InitAddress) > 1 {
			return errors.New("redis:// takes one host: use redis-sentinel:// or redis-cluster:// for several")
		}
		o.ForceSingleClient = true
		if path != "" {
			db = path
		}
	case "unix":
		if authority != "" || path == "" {
			return errors.New("unix:// takes the path of a socket: unix:///run/redis/redis.sock")
		}
		o.ForceSingleClient = true
		o.InitAddress = []string{"/" + path}
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", addr)
		}
	case "sentinel":
		master, rest, _ := strings.Cut(path, "/")
		if master == "" {
			return errors.New("redis-sentinel:// takes the primary's name after the hosts: redis-sentinel://host:26379,host:26379/mymaster")
		}
		if rest != "" {
			db = rest
		}
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: master, TLSConfig: o.TLSConfig, Dialer: o.Dialer, Username: q.Get("sentinel-user"),
			// Without it one missed message would bind us to a demoted primary.
			TopologyRefreshInterval: 2 * time.Second,
		}
		if o.Sentinel.Password, err = secret(q.Get("sentinel-password-file")); err != nil {
			return err
		}
	case "cluster":
		t.cluster = true
		if path != "" && path != "0" || db != "" && db != "0" {
			return errors.New("a Redis Cluster has only database 0")
		}
		db = ""
		o.ClusterOption = rueidis.ClusterOption{ShardsRefreshInterval: 15 * time.Second, MaxMovedRedirections: 8}
	}
	if db == "" {
		return nil
	}
	if o.SelectDB, err = strconv.Atoi(db); err != nil || o.SelectDB < 0 {
		return fmt.Errorf("%q is not the number of a database", db)
	}
	return nil
}

var known = map[string]bool{
	"prefix": true, "replicas": true, "allow-eviction": true, "layout": true, "db": true, "password-file": true,
	"ca": true, "cert": true, "key": true, "sentinel-user": true, "sentinel-password-file": true,
}

// parameters sets the options that every form has.
func (t *target) parameters(q url.Values) (err error) {
	for name := range q {
		if !known[name] {
			return fmt.Errorf("unknown parameter %q: known are prefix, replicas, allow-eviction, layout, db, password-file, "+
				"ca, cert, key, sentinel-user, sentinel-password-file", name)
		}
	}
	if file := q.Get("password-file"); file != "" {
		if t.client.Password, err = secret(file); err != nil {
			return err
		}
	}
	t.options.Prefix = q.Get("prefix")
	if v := q.Get("replicas"); v != "" {
		if t.options.Replicas, err = strconv.Atoi(v); err != nil {
			return fmt.Errorf("replicas=%q is not a number", v)
		}
	}
	if q.Has("allow-eviction") {
		v := q.Get("allow-eviction")
		if v == "" {
			v = "true"
		}
		if t.options.AllowEviction, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("allow-eviction=%q is neither true nor false", v)
		}
	}
	switch layout := q.Get("layout"); layout {
	case "", "lines":
	case "plain":
		t.plain = true
	default:
		return fmt.Errorf("layout=%q is unknown: lines (the default) and plain are known", layout)
	}
	return nil
}

func hosts(authority, port string) (addrs []string, err error) {
	if authority == "" {
		authority = "localhost"
	}
	for host := range strings.SplitSeq(authority, ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil {
			h, p = strings.Trim(host, "[]"), port
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || h == "" || strings.ContainsAny(h, " []") {
			return nil, fmt.Errorf("%q is not host:port", host)
		}
		addrs = append(addrs, net.JoinHostPort(h, p))
	}
	return addrs, nil
}

// tlsConfig always verifies the server.
func tlsConfig(q url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := q.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the certificate authority: %s holds no certificate in PEM", file)
		}
	}
	if cert, key := q.Get("cert"), q.Get("key"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("this client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func secret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the file with the password: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// dial makes the client. rueidis connects without a context, so somebody else
// must wait for it if ours ends first.
func dial(ctx context.Context, t target) (rueidis.Client, error) {
	type dialed struct {
		client rueidis.Client
		err    error
	}
	done := make(chan dialed, 1)
	go func() {
		c, err := rueidis.NewClient(t.client)
		if err != nil && c != nil {
			c.Close()
		}
		done <- dialed{c, err}
	}()
	select {
	case d := <-done:
		return d.client, unreachable(d.err)
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				d.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// unreachable says what a failed connection means.
func unreachable(err error) error {
	if err == nil {
		return nil
	}
	var unknown x509.UnknownAuthorityError
	text := err.Error()
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("its certificate is signed by an authority this machine does not know: name it with ?ca=file: %w", err)
	case strings.Contains(text, "unknown message type") || strings.Contains(text, "unknown redis message"):
		return fmt.Errorf("whatever listens there is not a Redis: %w", err)
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return fmt.Errorf("it does not speak TLS: use redis:// or its TLS port: %w", err)
	}
	return explain(err, "")
}

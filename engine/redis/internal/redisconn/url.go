package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine/redis/internal/slots"
	"leasehold/internal/certs"
)

// Target is what a URL says.
type Target struct {
	// AllowEviction: ?allow-eviction, see [Client.Check].
	AllowEviction bool

	// Failover: ?failover, see [Client.MayFailOver].
	Failover bool

	redis   rueidis.ClientOption
	cluster bool
	params  url.Values
}

// Param is what the URL says of a parameter that is not wire's.
func (t *Target) Param(name string) string { return t.params.Get(name) }

func (t *Target) address() string { return strings.Join(t.redis.InitAddress, ",") }

// Time-outs of the connections that Dial makes. A lock must notice a dead
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

// ParseURL reads a URL whose parameters are wire's or among params. It does so
// itself instead of using net/url for all of it: that knows no lists of hosts,
// and its errors quote the URL with the password.
func ParseURL(raw string, params ...string) (*Target, error) {
	t := &Target{}
	if err := t.parse(raw, params); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Target) parse(raw string, params []string) (err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	kind, known := schemes[strings.ToLower(scheme)]
	if !ok || !known {
		return errors.New("this is not a Redis URL: redis://, rediss://, unix://, redis-sentinel:// and redis-cluster:// are (valkey:// too)")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	var who string
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		who, authority = authority[:i], authority[i+1:]
	}
	user, password, both := strings.Cut(who, ":")
	if user != "" && !both {
		return errors.New("the URL names a user without a password: write user:password@, or :password@ for the default user")
	}
	q, err := url.ParseQuery(query)
	for _, text := range []*string{&user, &password, &path} {
		var wrong error
		*text, wrong = url.PathUnescape(*text)
		err = errors.Join(err, wrong)
	}
	if err != nil { // which may quote the password
		return errors.New("the URL cannot be read: write special characters in user, password, path and parameters as %xx")
	}
	o := &t.redis
	*o = rueidis.ClientOption{
		Username: user, Password: password,
		DisableCache: true, ClientName: "leasehold", ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:           net.Dialer{Timeout: dialTimeout, KeepAlive: pingInterval},
		ConnWriteTimeout: replyTimeout, ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		PipelineMultiplex: -1, // one connection carries more than four: its requests share more packets
		BlockingPoolSize:  64, BlockingPoolCleanup: time.Minute, BlockingPoolMinSize: 1,
	}
	if kind.form != "unix" {
		if o.InitAddress, err = hosts(authority, map[bool]string{true: "26379", false: "6379"}[kind.form == "sentinel"]); err != nil {
			return err
		}
	}
	if kind.tls {
		if o.TLSConfig, err = certs.Config(q); err != nil {
			return err
		}
	}
	if err := t.form(kind.form, authority, path, q); err != nil {
		return err
	}
	return t.parameters(q, params)
}

// form sets what the four kinds of server differ in.
func (t *Target) form(form, authority, path string, q url.Values) (err error) {
	o := &t.redis
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

// ours are the parameters that every engine's URL may have.
var ours = []string{"allow-eviction", "failover", "db", "password-file", "ca", "cert", "key", "sentinel-user", "sentinel-password-file"}

// parameters sets the options that every form has.
func (t *Target) parameters(q url.Values, params []string) (err error) {
	params = append(slices.Clone(params), ours...)
	for name := range q {
		if !slices.Contains(params, name) {
			return fmt.Errorf("unknown parameter %q: known are %s", name, strings.Join(params, ", "))
		}
	}
	t.params = q
	if file := q.Get("password-file"); file != "" {
		if t.redis.Password, err = secret(file); err != nil {
			return err
		}
	}
	for name, set := range map[string]*bool{"allow-eviction": &t.AllowEviction, "failover": &t.Failover} {
		if !q.Has(name) {
			continue
		}
		v := cmp.Or(q.Get(name), "true")
		if *set, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%s=%q is neither true nor false", name, v)
		}
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

var errUnreadable = errors.New("its answer cannot be read")

// unreachable says what a failed connection means.
func (t *Target) unreachable(err error) error {
	var unknown x509.UnknownAuthorityError
	var op *net.OpError
	text, secured := err.Error(), t.redis.TLSConfig != nil
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("its certificate is signed by an authority this machine does not know: name it with ?ca=file: %w", err)
	case errors.Is(err, errUnreadable), strings.Contains(text, "unknown message type") || strings.Contains(text, "unknown redis message"):
		return fmt.Errorf("whatever listens there is not a Redis, or speaks TLS only (rediss://): %w", err)
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return fmt.Errorf("it does not speak TLS: use redis:// or its TLS port: %w", err)
	case errors.As(err, &op) && op.Op == "dial" && !secured:
		return Explain(err, "") // nobody is there
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		if secured {
			return fmt.Errorf("whatever listens there has shaken no hands in time: it does not speak TLS (use redis:// or its TLS port), or hangs: %w", err)
		}
		return fmt.Errorf("whatever listens there has not answered in time: it is not a Redis, or hangs: %w", err)
	case broken(err):
		return fmt.Errorf("whatever listens there has closed the connection instead of answering: it is not a Redis, or speaks TLS only (rediss://): %w", err)
	}
	return Explain(err, "")
}

// CheckPrefix refuses what must not begin the keys of an engine.
func CheckPrefix(prefix string) error {
	_, side := slots.Side(prefix)
	switch {
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("the prefix %q contains a brace, which would move its keys to another Cluster slot", prefix)
	case side:
		return fmt.Errorf("the prefix %q begins as the keys do that leasehold keeps beside the locks of other names: choose another", prefix)
	case len(prefix) > 128:
		return fmt.Errorf("the prefix has %d bytes, more than 128", len(prefix))
	}
	return nil
}

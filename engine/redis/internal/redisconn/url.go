package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine/engineurl"
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

// ParseURL reads a URL whose parameters are wire's or among params.
func ParseURL(raw string, params ...string) (*Target, error) {
	t := &Target{}
	if err := t.parse(raw, params); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Target) parse(raw string, params []string) error {
	u, err := engineurl.Parse(raw, slices.Sorted(maps.Keys(schemes))...)
	if err != nil {
		return fmt.Errorf("this is not a Redis URL: %w", err)
	}
	if err := u.Only(append(slices.Clone(params), ours...)...); err != nil {
		return err
	}
	if err := u.PasswordFile(); err != nil {
		return err
	}
	if u.User != "" && u.Password == "" && !u.HasPassword() {
		return errors.New("the URL names a user without a password: write user:password@, user@ with ?password-file, or :password@ for the default user")
	}
	kind := schemes[u.Scheme]
	o := &t.redis
	*o = rueidis.ClientOption{
		Username: u.User, Password: u.Password,
		DisableCache: true, ClientName: "leasehold", ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:           net.Dialer{Timeout: dialTimeout, KeepAlive: pingInterval},
		ConnWriteTimeout: replyTimeout, ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		PipelineMultiplex: -1, // one connection carries more than four: its requests share more packets
		BlockingPoolSize:  64, BlockingPoolCleanup: time.Minute, BlockingPoolMinSize: 1,
	}
	if kind.tls {
		o.TLSConfig, err = engineurl.TLS(u.Params)
	} else {
		err = u.NoTLS("a scheme that does, as rediss:// and redlocks:// are")
	}
	if err != nil {
		return err
	}
	if err := t.form(kind.form, u); err != nil {
		return err
	}
	t.params = u.Params
	return errors.Join(engineurl.Bool(u.Params, "allow-eviction", &t.AllowEviction), engineurl.Bool(u.Params, "failover", &t.Failover))
}

// form sets what the four kinds of server differ in.
func (t *Target) form(form string, u *engineurl.URL) (err error) {
	o, path, db := &t.redis, u.Path, u.Params.Get("db")
	if form != "unix" {
		u.Authority = cmp.Or(u.Authority, "localhost")
		if o.InitAddress, err = u.Hosts(map[bool]string{true: "26379", false: "6379"}[form == "sentinel"]); err != nil {
			return err
		}
	}
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
		if u.Authority != "" || path == "" {
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
			MasterSet: master, TLSConfig: o.TLSConfig, Dialer: o.Dialer, Username: u.Params.Get("sentinel-user"),
			// Without it one missed message would bind us to a demoted primary.
			TopologyRefreshInterval: 2 * time.Second,
		}
		if file := u.Params.Get("sentinel-password-file"); file != "" {
			if o.Sentinel.Password, err = engineurl.Secret(file); err != nil {
				return err
			}
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
		return fmt.Errorf("the server is not a Redis, or speaks TLS only (rediss://): %w", err)
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return fmt.Errorf("it does not speak TLS: use redis:// or its TLS port: %w", err)
	case errors.As(err, &op) && op.Op == "dial" && !secured:
		return Explain(err, "") // nobody is there
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		if secured {
			return fmt.Errorf("the server did not finish the TLS handshake in time: it does not speak TLS (use redis:// or its TLS port), or hangs: %w", err)
		}
		return fmt.Errorf("the server has not answered in time: it is not a Redis, or hangs: %w", err)
	case broken(err) && secured: // a full server says why to those only who speak no TLS
		return fmt.Errorf("the server closed the connection instead of answering: it does not speak TLS (use redis:// or its TLS port), or is at its maxclients: %w", err)
	case broken(err):
		return fmt.Errorf("the server closed the connection instead of answering: it is not a Redis, or speaks TLS only (rediss://): %w", err)
	}
	return Explain(err, "")
}

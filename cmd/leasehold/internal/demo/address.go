package demo

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine/engineurl"
)

// The schemes of --server, and whether each is TLS.
var (
	redisSchemes = map[string]bool{
		"redis": false, "rediss": true, "valkey": false, "valkeys": true, "unix": false, "redis+unix": false,
		"redis-sentinel": false, "rediss-sentinel": true, "redis-cluster": false, "rediss-cluster": true,
	}
	zooKeeperSchemes = map[string]bool{"zookeeper": false, "zookeepers": true}
)

// known are the parameters of the engine's URLs that are of the connection. Others choose
// how leasehold locks, which the demo does.
var known = []string{"ca", "cert", "key", "password-file", "db", "sentinel-user", "sentinel-password-file"}

// address is what a URL says to the clients of hand-written locks. The engine has a parser
// of its own.
type address struct {
	*engineurl.URL
	hosts []string
	tls   *tls.Config // nil: in plain text
}

func parse(server string, schemes map[string]bool, port string) (a address, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrServer, err)
		}
	}()
	if a.URL, err = engineurl.Parse(server, slices.Sorted(maps.Keys(schemes))...); err != nil {
		return a, err
	}
	if err := errors.Join(a.Only(known...), a.PasswordFile()); err != nil {
		return a, err
	}
	if schemes[a.Scheme] {
		a.tls, err = engineurl.TLS(a.Params)
	} else {
		err = a.NoTLS("a scheme that does, as rediss:// and zookeepers:// are")
	}
	if err != nil || strings.HasSuffix(a.Scheme, "unix") {
		return a, err
	}
	a.Authority = cmp.Or(a.Authority, "localhost")
	a.hosts, err = a.Hosts(port)
	return a, err
}

// redisOptions are those of one server, of Sentinels or of a Cluster.
func redisOptions(server string) (o rueidis.ClientOption, err error) {
	scheme, _, _ := strings.Cut(strings.ToLower(server), ":")
	sentinel, port := strings.HasSuffix(scheme, "-sentinel"), "6379"
	if sentinel {
		port = "26379"
	}
	a, err := parse(server, redisSchemes, port)
	if err != nil {
		return o, err
	}
	database := cmp.Or(a.Params.Get("db"), "0")
	o = rueidis.ClientOption{InitAddress: a.hosts, Username: a.User, Password: a.Password, TLSConfig: a.tls, DisableCache: true}
	switch {
	case sentinel:
		primary, rest, _ := strings.Cut(a.Path, "/")
		database = cmp.Or(rest, database)
		if primary == "" {
			return o, fmt.Errorf("%w: the URL does not name the primary: give redis-sentinel://host:26379/mymaster", ErrServer)
		}
		o.Sentinel = rueidis.SentinelOption{MasterSet: primary, TLSConfig: a.tls, Username: a.Params.Get("sentinel-user")}
		if file := a.Params.Get("sentinel-password-file"); file != "" {
			if o.Sentinel.Password, err = engineurl.Secret(file); err != nil {
				return o, fmt.Errorf("%w: %w", ErrServer, err)
			}
		}
	case strings.HasSuffix(a.Scheme, "-cluster"):
	case strings.HasSuffix(a.Scheme, "unix"):
		o.ForceSingleClient, o.InitAddress = true, []string{"/" + a.Path}
		o.DialFn = func(addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) { return d.Dial("unix", addr) }
	default:
		o.ForceSingleClient = true
		database = cmp.Or(a.Path, database)
	}
	if o.SelectDB, err = strconv.Atoi(database); err != nil {
		err = fmt.Errorf("%w: %q is not the number of a database: correct it", ErrServer, database)
	}
	return o, err
}

// parseZooKeeper is parse for its servers.
func parseZooKeeper(server string) (address, error) {
	scheme, _, _ := strings.Cut(strings.ToLower(server), ":")
	port := "2181"
	if zooKeeperSchemes[scheme] {
		port = "" // there is no usual one with TLS
	}
	a, err := parse(server, zooKeeperSchemes, port)
	if err == nil && a.User+a.Password != "" {
		return a, fmt.Errorf("%w: the hand-written lock does not log in to ZooKeeper: leave user and password out", ErrServer)
	}
	return a, err
}

// dial connects to one of ZooKeeper's servers.
func (a address) dial(network, host string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	if a.tls == nil {
		return d.Dial(network, host)
	}
	return tls.DialWithDialer(&d, network, host, a.tls)
}

package etcdlock

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"leasehold/engine/engineurl"
)

// Time-outs of connections that Open makes: a dead one must be noticed well within
// a TTL.
const (
	dialTimeout = 3 * time.Second
	pingEvery   = 5 * time.Second
)

// reconnecting is how connections are made again. gRPC's defaults are for calls that can
// wait: it gives a server that accepts a connection and says nothing 20 s, and pauses up to
// two minutes between tries. After an outage a client would be away for many TTLs.
var reconnecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: dialTimeout,
}

var parameters = []string{"allow-old", "password-file", "ca", "cert", "key"}

func parseURL(raw string) (clientv3.Config, *Options, error) {
	c := clientv3.Config{
		DialTimeout: dialTimeout, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: dialTimeout,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnecting)},
		Logger:      zap.NewNop(), // what is worth saying is in errors
	}
	o := &Options{}
	err := readURL(raw, &c, o)
	return c, o, err
}

func readURL(raw string, c *clientv3.Config, o *Options) error {
	u, err := engineurl.Parse(raw, "etcd", "etcds")
	if err != nil {
		return fmt.Errorf("this is not an etcd URL: %w", err)
	}
	if err := u.Only(parameters...); err != nil {
		return err
	}
	if err := u.PasswordFile(); err != nil {
		return err
	}
	c.Username, c.Password = u.User, u.Password
	if (c.Username == "") != (c.Password == "") {
		return errors.New("the URL names a user without a password, or a password without a user: write user:password@, or user@ with ?password-file")
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		o.Prefix = path + "/"
	}
	http := "http://"
	if u.Scheme == "etcds" {
		http = "https://"
		c.TLS, err = engineurl.TLS(u.Params)
	} else {
		err = u.NoTLS("etcds://")
	}
	if err != nil {
		return err
	}
	u.Authority = cmp.Or(u.Authority, "localhost")
	hosts, err := u.Hosts("2379")
	for _, host := range hosts {
		c.Endpoints = append(c.Endpoints, http+host)
	}
	if err := errors.Join(err, engineurl.Bool(u.Params, "allow-old", &o.AllowOld)); err != nil {
		return err
	}
	// A value that New refuses makes the URL a wrong one, which no retry mends.
	*o, err = o.check()
	return err
}

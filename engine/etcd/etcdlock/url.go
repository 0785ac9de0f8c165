package etcdlock

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"leasehold/internal/certs"
)

// Time-outs of connections that Open makes: a dead one must be noticed well within
// a TTL.
const (
	dialTimeout = 3 * time.Second
	pingEvery   = 5 * time.Second
)

var parameters = []string{"ttl", "allow-old", "password-file", "ca", "cert", "key"}

// parseURL does without net/url for all but the query: that knows no lists of
// hosts, and its errors quote the URL with the password.
func parseURL(raw string) (clientv3.Config, *Options, error) {
	c := clientv3.Config{
		DialTimeout: dialTimeout, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: dialTimeout,
		Logger: zap.NewNop(), // what is worth saying is in errors
	}
	o := &Options{}
	err := readURL(raw, &c, o)
	return c, o, err
}

func readURL(raw string, c *clientv3.Config, o *Options) error {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return errors.New("this is not an etcd URL: etcd:// and etcds:// are")
	}
	rest, query, _ := strings.Cut(rest, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("what follows ? in the URL cannot be read: write special characters as %xx")
	}
	for name := range q {
		if !slices.Contains(parameters, name) {
			return fmt.Errorf("unknown parameter %q: known are %s", name, strings.Join(parameters, ", "))
		}
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		authority = authority[i+1:]
		var err1, err2 error
		c.Username, err1 = url.PathUnescape(user)
		c.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return errors.New("user or password in the URL cannot be read: write special characters as %xx")
		}
	}
	if file := q.Get("password-file"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("the file with the password: %w", err)
		}
		c.Password = strings.TrimRight(string(b), "\r\n")
	}
	if (c.Username == "") != (c.Password == "") {
		return errors.New("the URL names a user without a password, or a password without a user: write user:password@, or user@ with ?password-file")
	}
	if path, err = url.PathUnescape(path); err != nil {
		return errors.New("the path of the URL cannot be read: write special characters as %xx")
	}
	if path = strings.Trim(path, "/"); path != "" {
		o.Prefix = path + "/"
	}
	if scheme == "etcds" {
		if c.TLS, err = certs.Config(q); err != nil {
			return err
		}
	}
	if c.Endpoints, err = endpoints(authority, c.TLS != nil); err != nil {
		return err
	}
	if v := q.Get("ttl"); v != "" {
		if o.TTL, err = time.ParseDuration(v); err != nil {
			return fmt.Errorf("ttl=%q is no duration: write 30s or 2m", v)
		}
	}
	if q.Has("allow-old") {
		v := cmp.Or(q.Get("allow-old"), "true")
		if o.AllowOld, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("allow-old=%q is neither true nor false", v)
		}
	}
	return nil
}

func endpoints(authority string, secure bool) (all []string, err error) {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(cmp.Or(authority, "localhost"), ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil {
			h, p = strings.Trim(host, "[]"), "2379"
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || h == "" || strings.ContainsAny(h, " []") {
			return nil, fmt.Errorf("%q is not host:port", host)
		}
		all = append(all, scheme+net.JoinHostPort(h, p))
	}
	return all, nil
}

package zklock

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"leasehold/internal/certs"
)

// parseURL reads a URL itself instead of using net/url for all of it: that knows no
// lists of hosts, and its errors quote the URL with the password.
func parseURL(raw string) (*Options, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "zookeeper" && scheme != "zookeepers" {
		return nil, errors.New("this is not a ZooKeeper URL: zookeeper://host:2181,host:2181/root is, and zookeepers:// with TLS")
	}
	rest, query, _ := strings.Cut(rest, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what follows ? in the URL cannot be read: write special characters as %xx")
	}
	o := &Options{}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		authority = authority[i+1:]
		var err1, err2 error
		o.User, err1 = url.PathUnescape(user)
		o.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return nil, errors.New("user or password in the URL cannot be read: write special characters as %xx")
		}
	}
	if path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("the path of the URL cannot be read: write special characters as %xx")
	}
	if path != "" {
		o.Root = "/" + path
	}
	for host := range strings.SplitSeq(authority, ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil && scheme == "zookeeper" { // there is no usual port with TLS
			h, p = strings.Trim(host, "[]"), "2181"
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || h == "" || strings.ContainsAny(h, " []") {
			return nil, fmt.Errorf("%q is not host:port", host)
		}
		o.Servers = append(o.Servers, net.JoinHostPort(h, p))
	}
	if scheme == "zookeepers" {
		if o.TLS, err = certs.Config(q); err != nil {
			return nil, err
		}
	}
	for name, values := range q {
		if err := o.parameter(name, values[0]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *Options) parameter(name, v string) (err error) {
	switch name {
	case "session":
		if o.Session, err = time.ParseDuration(v); err != nil || o.Session <= 0 {
			return fmt.Errorf("session=%q is no duration like 20s", v)
		}
	case "layout":
		o.Layout = v
	case "prefix":
		o.Prefix = v
	case "acl":
		if o.OpenACL = v == "open"; !o.OpenACL && v != "creator" {
			return fmt.Errorf("acl=%q is neither open nor creator", v)
		}
	case "password-file":
		b, err := os.ReadFile(v)
		if err != nil {
			return fmt.Errorf("the file with the password: %w", err)
		}
		o.Password = strings.TrimRight(string(b), "\r\n")
	case "ca", "cert", "key":
		if o.TLS == nil {
			return fmt.Errorf("%s= is for zookeepers://, with TLS", name)
		}
	default:
		return fmt.Errorf("unknown parameter %q: known are session, layout, prefix, acl, password-file, ca, cert, key", name)
	}
	return nil
}

package zklock

import (
	"fmt"

	"leasehold/engine/engineurl"
)

func parseURL(raw string) (*Options, error) {
	u, err := engineurl.Parse(raw, "zookeeper", "zookeepers")
	if err != nil {
		return nil, fmt.Errorf("this is not a ZooKeeper URL like zookeeper://host:2181,host:2181/root: %w", err)
	}
	if err := u.PasswordFile(); err != nil {
		return nil, err
	}
	o := &Options{User: u.User, Password: u.Password}
	if u.Path != "" {
		o.Root = "/" + u.Path
	}
	port := "2181"
	if u.Scheme == "zookeepers" {
		port = "" // there is no usual one with TLS
		if o.TLS, err = engineurl.TLS(u.Params); err != nil {
			return nil, err
		}
	}
	if o.Servers, err = u.Hosts(port); err != nil {
		return nil, err
	}
	for name, values := range u.Params {
		if err := o.parameter(name, values[0]); err != nil {
			return nil, err
		}
	}
	// A value that New refuses makes the URL a wrong one, which no retry mends.
	if _, err := o.complete(); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Options) parameter(name, v string) (err error) {
	switch name {
	case "layout":
		o.Layout = v
	case "prefix":
		o.Prefix = v
	case "acl":
		if o.OpenACL = v == "open"; !o.OpenACL && v != "creator" {
			return fmt.Errorf("acl=%q is neither open nor creator: give one of the two", v)
		}
	case "password-file":
	case "ca", "cert", "key":
		if o.TLS == nil {
			return fmt.Errorf("%s= is for TLS: use zookeepers://, or leave it out", name)
		}
	default:
		return fmt.Errorf("unknown parameter %q: known are layout, prefix, acl, password-file, ca, cert, key", name)
	}
	return nil
}

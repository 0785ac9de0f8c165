// Package engineurl reads URLs of engines:
//
//	scheme://user:password@host:port,host:port/path?parameter=value
//
// It does so itself instead of using net/url for all of it: that knows no lists of
// hosts, and its errors quote the URL with the password. No error of this package
// shows any part of a URL that may be one.
//
// What the parts mean is the engine's: which schemes it has, whether a path or several
// hosts make sense, and which parameters there are. Nothing is read from a file, and
// no default filled in, unless it is asked for.
package engineurl

import (
	"cmp"
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
)

// URL is what a URL says.
type URL struct {
	Scheme    string // in lower case
	User      string
	Password  string
	Authority string // the hosts, as they stand there
	Path      string // without the slash that begins it
	Params    url.Values

	colon bool // one follows the user
}

// Parse reads a URL whose scheme is one of those.
func Parse(raw string, schemes ...string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	u := &URL{Scheme: strings.ToLower(scheme)}
	if !ok || !slices.Contains(schemes, u.Scheme) {
		return nil, errors.New("the URL has another scheme: known are " + strings.Join(schemes, "://, ") + "://")
	}
	err := Clear(raw)
	if err != nil {
		return nil, err
	}
	rest, query, _ := strings.Cut(rest, "?")
	if u.Params, err = url.ParseQuery(query); err != nil {
		return nil, unreadable("what follows ? in the URL")
	}
	u.Authority, u.Path, _ = strings.Cut(rest, "/")
	if i := strings.LastIndexByte(u.Authority, '@'); i >= 0 {
		u.User, u.Password, u.colon = strings.Cut(u.Authority[:i], ":")
		u.Authority = u.Authority[i+1:]
	}
	var user, password, path error
	u.User, user = url.PathUnescape(u.User)
	u.Password, password = url.PathUnescape(u.Password)
	u.Path, path = url.PathUnescape(u.Path)
	switch {
	case user != nil || password != nil:
		return nil, unreadable("user or password in the URL")
	case path != nil:
		return nil, unreadable("the path of the URL")
	}
	return u, nil
}

// Clear refuses a URL in which an @ or a # follows the hosts. Such an @ is most often the
// end of a password with a / or ? in it: what looks like a host, a path or a parameter is
// then a part of that password. The error shows none of it.
func Clear(raw string) error {
	_, rest, _ := strings.Cut(raw, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 && strings.ContainsAny(rest[end:], "@#") {
		return errors.New("the URL has an @ or a # after its first / or ?: write these characters as %xx in a password, a path or a parameter (/ is %2F, ? is %3F, @ is %40, # is %23)")
	}
	return nil
}

func unreadable(what string) error {
	return errors.New(what + " cannot be read: write special characters as %xx")
}

// HasPassword reports whether the URL itself says a password, if an empty one.
func (u *URL) HasPassword() bool { return u.colon }

// Hosts are the addresses, each with a port: that one where none stands there. An
// empty port means that each must have one.
func (u *URL) Hosts(port string) (addrs []string, err error) {
	for host := range strings.SplitSeq(u.Authority, ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil && port != "" {
			h, p = strings.Trim(host, "[]"), port
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || h == "" || strings.ContainsAny(h, " []#") {
			return nil, fmt.Errorf("%q is not host:port", host)
		}
		addrs = append(addrs, net.JoinHostPort(h, p))
	}
	return addrs, nil
}

// Only refuses a parameter that is none of those.
func (u *URL) Only(params ...string) error {
	for name := range u.Params {
		if !slices.Contains(params, name) {
			return fmt.Errorf("unknown parameter %q: known are %s", name, strings.Join(params, ", "))
		}
	}
	return nil
}

// PasswordFile takes the password from the file that ?password-file names, if it does.
func (u *URL) PasswordFile() (err error) {
	if u.Params.Get("password-file") != "" {
		u.Password, err = Secret(u.Params.Get("password-file"))
	}
	return err
}

// Secret is what a file says, without the end of its line.
func Secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the file with the password: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// Bool reads a parameter that is true or false, or stands alone for true.
func Bool(params url.Values, name string, to *bool) (err error) {
	if !params.Has(name) {
		return nil
	}
	v := cmp.Or(params.Get(name), "true")
	if *to, err = strconv.ParseBool(v); err != nil {
		return fmt.Errorf("%s=%q is neither: write true or false", name, v)
	}
	return nil
}

// NoTLS refuses the files of [TLS] where the URL's scheme has no TLS: the connection would
// be in plain text. with names the schemes that have it.
func (u *URL) NoTLS(with string) error {
	for _, name := range []string{"ca", "cert", "key"} {
		if u.Params.Has(name) {
			return fmt.Errorf("%s= is for TLS, which %s:// does not have: use %s, or leave it out", name, u.Scheme, with)
		}
	}
	return nil
}

// TLS is TLS 1.2 or later with the files that a URL names: ca= (whom to believe instead
// of the machine's authorities), cert= and key= (who we are), all in PEM. The server is
// always verified.
func TLS(params url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := params.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the certificate authority: %s holds no certificate in PEM", file)
		}
	}
	if cert, key := params.Get("cert"), params.Get("key"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("this client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

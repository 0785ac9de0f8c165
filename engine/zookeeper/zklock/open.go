package zklock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/zookeeper/internal/nodes"
)

// DefaultSession is Options.Session where it is zero: ten ticks of a server as it
// comes, which allows two to twenty.
const DefaultSession = 20 * time.Second

// OpenBound is how long the first connection may take.
const OpenBound = 5 * time.Second

// Options are the choices of [New]; in a URL they are parameters of the same name in
// lower case, unless said otherwise.
type Options struct {
	// Servers are host:port, at least one: the hosts of a URL.
	Servers []string

	// Root is the node below which the nodes of names are; it must exist. "" or
	// "/a/b", the path of a URL: what other clients give as their chroot.
	Root string

	// Session is for how long the servers keep the claims of a client that is not
	// heard of. A lease is trusted for half of it. At least four ticks of the
	// servers (tickTime, two seconds unless configured). Default DefaultSession.
	Session time.Duration

	// Layout is "curator" (the default), "readwrite" or "nodes". Programs share
	// locks only if they use the same: see the package documentation.
	Layout string

	// Prefix begins the nodes of the layout "nodes". Default "lock-".
	Prefix string

	// User and Password authenticate by digest: user:password@ of a URL, or
	// user@ with the parameter password-file.
	User, Password string

	// OpenACL lets everybody use the nodes that are made, as they may without a
	// User. With one, only that user may, unless this is set. acl=open, acl=creator.
	OpenACL bool

	// TLS, unless nil, is spoken with every server, of which the certificate must be
	// of the name it was given by here. zookeepers:// of a URL, with ca=, cert= and key=
	// as files.
	TLS *tls.Config

	// Dial connects to a server, with a bound in its context. Default: TCP. Not in
	// a URL.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Open connects to the servers that a URL names and returns an engine on them:
//
//	zookeeper://[user:password@]host:2181,host:2181/root?session=20s&layout=curator
//	zookeepers://...                       with TLS, always verified; ca=, cert=, key=
//
// ctx bounds the opening only, and [OpenBound] too. No error of it shows a password.
//
// Errors: a malformed URL; no server that can be reached; no such root; a user that
// may not see it; a session that the servers do not grant.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	o, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w: %w", engine.ErrURL, err)
	}
	e, err := New(ctx, *o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// New is Open without a URL.
func New(ctx context.Context, o Options) (*Engine, error) {
	layout, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	e := &Engine{
		root: o.Root, layout: layout, acl: zk.WorldACL(zk.PermAll),
		claims: map[engine.ID]*claim{}, own: map[string]*claim{},
		awaited: map[string]map[*claim]struct{}{}, lines: map[string]map[*claim]struct{}{}, watches: map[watch]bool{},
		listings: map[string]*listings{}, creating: make(chan struct{}, mostCreated),
		news: news{looks: map[*claim]struct{}{}, more: make(chan struct{}, 1)},
	}
	if o.User != "" && !o.OpenACL {
		e.acl = zk.AuthACL(zk.PermAll)
	}
	e.life, e.end = context.WithCancel(context.Background())
	if e.link, err = connect(e.life, &o, e.received); err != nil {
		e.end()
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, OpenBound, fmt.Errorf("not within %v", OpenBound))
	defer cancel()
	if err := e.start(ctx, &o); err != nil {
		e.end()
		e.link.abort()
		e.link.close()
		return nil, err
	}
	return e, nil
}

func (o *Options) complete() (layout nodes.Layout, err error) {
	if o.Session == 0 {
		o.Session = DefaultSession
	}
	switch {
	case len(o.Servers) == 0:
		return layout, errors.New("no server is named")
	case o.Session < 2*engine.MinTTL || o.Session > 2*engine.MaxTTL:
		return layout, fmt.Errorf("a session of %v is outside %v to %v", o.Session, 2*engine.MinTTL, 2*engine.MaxTTL)
	case (o.User == "") != (o.Password == ""):
		return layout, errors.New("a user needs a password, and a password a user")
	case strings.Contains(o.User, ":"):
		return layout, errors.New("the name of a user has no colon")
	case o.Prefix != "" && o.Layout != "nodes":
		return layout, errors.New("only the layout nodes has a prefix")
	}
	o.Root = strings.TrimSuffix(o.Root, "/")
	if o.Root != "" && (o.Root[0] != '/' || slices.ContainsFunc(strings.Split(o.Root[1:], "/"), notNode)) {
		return layout, fmt.Errorf("%q is not the path of a node", o.Root)
	}
	switch o.Layout {
	case "", "curator":
		return nodes.Curator(), nil
	case "readwrite":
		return nodes.ReadWrite(), nil
	case "nodes":
		if o.Prefix == "" {
			o.Prefix = "lock-"
		}
		return nodes.Plain(o.Prefix)
	}
	return layout, fmt.Errorf("the layout %q is unknown: curator (the default), readwrite and nodes are known", o.Layout)
}

func notNode(s string) bool {
	return s == "" || s == "." || s == ".." || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// start waits for the first session and looks whether it is what is needed.
func (e *Engine) start(ctx context.Context, o *Options) error {
	s, err := e.link.await(ctx)
	if err != nil {
		return err
	}
	if s.timeout > o.Session {
		// As a server comes, the least that it grants is two ticks.
		return fmt.Errorf("zookeeper: the servers keep every session for %v at least, and a lock needs twice their least: ask for a session of %v or more (?session=), or lower their minSessionTimeout and tickTime", s.timeout, 2*s.timeout)
	}
	e.ttl = s.timeout / 2
	if e.ttl < engine.MinTTL {
		return fmt.Errorf("zookeeper: the servers keep a session for %v, which is too short: raise their maxSessionTimeout", s.timeout)
	}
	if o.User != "" {
		_, err := ask(ctx, e.link, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, conn.AddAuth("digest", []byte(o.User+":"+o.Password))
		})
		if err != nil {
			return fmt.Errorf("zookeeper: the servers do not let user %q in: %w", o.User, err)
		}
	}
	return e.Check(ctx)
}

// Check implements [engine.Checker]: it looks again at what opening looked at, since
// servers change while their clients live. It says once that they went back to an older
// copy of their data.
func (e *Engine) Check(ctx context.Context) error {
	there, err := ask(ctx, e.link, func(conn *zk.Conn) (bool, error) {
		there, _, err := conn.Exists(e.rootPath())
		return there, err
	})
	if err != nil {
		return explain(err, e.rootPath())
	}
	if !there {
		return engine.Refuse("zookeeper: there is no node %s: create it (zkCli.sh: create %s), or correct the path of the URL", e.root, e.root)
	}
	s, _ := e.link.current()
	if e.granted(s) < e.ttl && s.id != 0 {
		return engine.Refuse("zookeeper: the servers keep a session for %v now, where it was %v when this client began: leases are trusted for %v, and not for the %v that were promised; raise maxSessionTimeout again, or open this client anew", s.timeout, 2*e.ttl, e.granted(s), e.ttl)
	}
	if back := e.link.notifyBack(); back != nil {
		return engine.Refuse("zookeeper: %w", back)
	}
	return nil
}

package zklock

import (
	"cmp"
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
	"leasehold/internal/mailbox"
)

// OpenBound is how long the first connection may take.
const OpenBound = 5 * time.Second

// Options are the choices of [New]; in a URL they are parameters of the same name in
// lower case, unless said otherwise.
type Options struct {
	// Servers are addresses host:port, at least one: the hosts of a URL.
	Servers []string

	// Root is the node below which the nodes of names are; it must exist. It is "" or
	// "/a/b", the path of a URL. Other clients call it their chroot.
	Root string

	// Layout is "curator" (the default), "readwrite" or "nodes". Programs share locks only
	// if they use the same layout: see the package documentation.
	Layout string

	// Prefix begins the nodes of the layout "nodes". Default "lock-".
	Prefix string

	// User and Password authenticate by digest: user:password@ of a URL, or
	// user@ with the parameter password-file.
	User, Password string

	// OpenACL lets everybody use the nodes that the client makes. Without a User they may
	// anyway. With a User only that one may, unless this is set. acl=open, acl=creator.
	OpenACL bool

	// TLS, unless nil, is the configuration for every server. A server's certificate must
	// have the server's name in Servers. In a URL: zookeepers://, with the files ca=,
	// cert= and key=.
	TLS *tls.Config

	// Dial connects to a server, with a bound in its context. Default: TCP. Not in a URL.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	ttl time.Duration // of the first session, in tests
}

// Open connects to the servers that a URL names and returns an engine on them:
//
//	zookeeper://[user:password@]host:2181,host:2181/root?layout=curator
//	zookeepers://...                       with TLS, always verified; ca=, cert=, key=
//
// ctx and [OpenBound] bound the opening only. Its errors show no password.
//
// It returns an error for a malformed URL, if no server can be reached, and if the servers
// allow no session that is long enough. It refuses a root that does not exist, or that the
// user may not see.
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
		options: o, root: o.Root, layout: layout, acl: zk.WorldACL(zk.PermAll),
		mail: mailbox.New(),
	}
	if o.User != "" && !o.OpenACL {
		e.acl = zk.AuthACL(zk.PermAll)
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.classes.Open = e.newClaimant
	e.classes.Close = func(of *claimant) { e.spawn(func() { _ = of.close() }) }
	ctx, cancel := context.WithTimeoutCause(ctx, OpenBound, fmt.Errorf("no answer within %v", OpenBound))
	defer cancel()
	if err := e.start(ctx); err != nil {
		for _, c := range e.classes.Opened() {
			c.Session.link.abort()
		}
		return nil, errors.Join(err, e.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spawn(e.sweep)
	return e, nil
}

func (o *Options) complete() (layout nodes.Layout, err error) {
	switch {
	case len(o.Servers) == 0:
		return layout, errors.New("no server is named: give host:port of one at least")
	case (o.User == "") != (o.Password == ""):
		return layout, errors.New("a user needs a password, and a password a user: give both or none")
	case strings.Contains(o.User, ":"):
		return layout, errors.New("the name of the user has a colon: give the password separately")
	case o.Prefix != "" && o.Layout != "nodes":
		return layout, errors.New("only the layout nodes has a prefix: leave it out")
	}
	o.Root = strings.TrimSuffix(o.Root, "/")
	if o.Root != "" && (o.Root[0] != '/' || slices.ContainsFunc(strings.Split(o.Root[1:], "/"), notNode)) {
		return layout, fmt.Errorf("%q is not the path of a node: give one such as /locks", o.Root)
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

// usualTTL is that of the first session. Claims with that TTL and inspections use it.
const usualTTL = 30 * time.Second

// start waits for the first session, asks how long other sessions may last, and checks
// that the engine has all that it needs.
func (e *Engine) start(ctx context.Context) error {
	e.usual = cmp.Or(e.options.ttl, usualTTL)
	class, err := e.use(ctx, e.usual)
	if err != nil {
		return err
	}
	defer e.done(class)
	s, _ := class.Session.link.current()
	class.Session.ttl = min(e.usual, s.timeout/2)
	e.usual, class.TTL = class.Session.ttl, class.Session.ttl
	least, most, err := allowed(ctx, e.options.dialer(), class.Session.link.conn.Server())
	if err != nil {
		return fmt.Errorf("zookeeper: find out how long sessions may last: %w", err)
	}
	// A lock needs four ticks; as a server comes, the least that it allows is two.
	e.shortest, e.longest = max(least, engine.MinTTL), min(most/2, engine.MaxTTL)
	if e.shortest > e.longest {
		return fmt.Errorf("zookeeper: the servers keep a session for %v to %v, and a lock needs one of twice the least: raise their maxSessionTimeout, or lower their minSessionTimeout and tickTime", least, most)
	}
	return e.Check(ctx)
}

// Check implements [engine.Checker]: it checks again what opening checked, since servers
// change while their clients live. It reports once that they went back to an older copy of
// their data.
func (e *Engine) Check(ctx context.Context) error {
	class, err := e.any(ctx)
	if err != nil {
		return err
	}
	defer e.done(class)
	there, err := ask(ctx, class.Session.link, func(conn *zk.Conn) (bool, error) {
		there, _, err := conn.Exists(e.rootPath())
		return there, err
	})
	if err != nil {
		return explain(err, e.rootPath())
	}
	if !there {
		return engine.Refuse("zookeeper: there is no node %s: create it (zkCli.sh: create %s), or correct the path of the URL", e.root, e.root)
	}
	e.mu.Lock()
	all := e.classes.Opened()
	e.mu.Unlock()
	for _, c := range all {
		if s, _ := c.Session.link.current(); s.id != 0 && s.timeout/2 < c.TTL {
			return engine.Refuse("zookeeper: the servers keep a session for %v now, not for %v, so leases are trusted for %v, not for %v: raise maxSessionTimeout again, or open this client anew", s.timeout, 2*c.TTL, s.timeout/2, c.TTL)
		}
		if back := c.Session.link.notifyBack(); back != nil {
			return engine.Refuse("zookeeper: %w", back)
		}
	}
	return nil
}

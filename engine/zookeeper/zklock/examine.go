package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

// bounds are from when on an examination reports something.
type bounds struct {
	old      time.Duration // an ephemeral node
	children int           // of one node
	word     time.Duration // a server that does not answer a four-letter word
}

func usualBounds() bounds {
	return bounds{old: 24 * time.Hour, children: 5000, word: 2 * time.Second}
}

// sideBySide is how many nodes are asked for at once.
const sideBySide = 32

// Examine reports what is dangerous for locks in the ZooKeeper that a URL names, in the
// form of [Open]. It makes a session, as every client does, and no node. It calls found
// from the goroutine of its caller, the worst finding first.
//
// Errors: a malformed URL; no server that can be reached; a user that is not let in; no
// such root. A part that this user may not read is a finding.
func Examine(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return examine(ctx, rawURL, o, usualBounds(), found)
}

// examiner is one examination.
type examiner struct {
	*findings.List
	bounds
	*link
	options *Options
}

func examine(ctx context.Context, rawURL string, o engine.ExamineOptions, b bounds, found func(engine.Finding)) error {
	options, err := parseURL(rawURL)
	if err != nil {
		return fmt.Errorf("zookeeper: %w: %w", engine.ErrURL, err)
	}
	life, end := context.WithCancel(context.Background())
	defer end()
	x := examiner{findings.New(o), b, connect(life, options, usualTTL, func(zk.Event) {}), options}
	defer x.close()
	defer x.abort()
	opening, cancel := context.WithTimeoutCause(ctx, OpenBound, fmt.Errorf("not within %v", OpenBound))
	defer cancel()
	if options.User != "" {
		_, err = ask(opening, x.link, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, conn.AddAuth("digest", []byte(options.User+":"+options.Password))
		})
	} else {
		_, err = x.await(opening)
	}
	if err != nil {
		return explain(err, x.root())
	}
	for _, part := range []func(context.Context) error{x.servers, x.sessions, x.nodes} {
		if err := part(ctx); x.Late(ctx, err) {
			break
		} else if err != nil {
			return err
		}
	}
	x.Report(found)
	return nil
}

func (x *examiner) root() string {
	if x.options.Root == "" {
		return "/"
	}
	return x.options.Root
}

// servers examines each server by a four-letter word, and how many there are.
func (x *examiner) servers(ctx context.Context) error {
	members := 0
	config, err := ask(ctx, x.link, func(conn *zk.Conn) ([]byte, error) {
		b, _, err := conn.Get("/zookeeper/config")
		return b, err
	})
	switch {
	case findings.Over(ctx, err):
		return err
	case err != nil:
		x.Unread("/zookeeper/config", err, "read on the nodes")
		members = len(x.options.Servers)
	default:
		members = strings.Count(string(config), ":participant")
	}
	switch {
	case members <= 1:
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "one server alone",
			Means: "While it is down nobody can lock, and if its disk is lost, so are all sessions and nodes.",
			Do:    "Run three or five servers.",
		}, "%s", strings.Join(x.options.Servers, ", "))
	case members%2 == 0:
		x.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "the number of servers is even",
			Means: "An even number survives no more failures than one server less.",
			Do:    "Run three, five or seven servers.",
		}, "%d", members)
	}
	for _, server := range x.options.Servers {
		x.server(ctx, server)
	}
	return nil
}

// server examines one by "srvr", which every server answers unless it is told not to.
func (x *examiner) server(ctx context.Context, server string) {
	says, err := word(ctx, x.options.dialer(), server, "srvr", x.word)
	switch {
	case err != nil:
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a server cannot be reached",
			Means: "Each server that is down is a failure less that the rest survives.",
			Do:    "Start it, or correct the URL.",
		}, "%s: %v", server, err)
	case strings.Contains(says, "not currently serving"), strings.Contains(says, "Mode: read-only"): // the latter with readonlymode.enabled
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a server is not in the quorum",
			Means: "It takes no locks, so the rest survives one failure less.",
			Do:    "Look into its log, and at its connections to the other servers.",
		}, "%s", server)
	case !strings.Contains(says, "Mode: "):
		x.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "four-letter words are closed",
			Means: "Whether this server leads, follows or is away cannot be seen from here.",
			Do:    "Set 4lw.commands.whitelist=srvr, or ask the server's administrator port.",
		}, "%s", server)
	}
}

// word asks a server a four-letter word, and waits for so long.
func word(ctx context.Context, dial dialer, server, four string, bound time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c, err := dial(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer c.Close()
	until, _ := ctx.Deadline()
	_ = c.SetDeadline(until) // a connection that has none fails below
	if _, err := io.WriteString(c, four); err != nil {
		return "", err
	}
	const most = 16 << 10
	b, err := io.ReadAll(io.LimitReader(c, most))
	if len(b) > 0 {
		err = nil // it answered, however it hung up
	}
	return string(b), err
}

// sessions examines for how long servers keep them.
func (x *examiner) sessions(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, OpenBound)
	defer cancel()
	least, most, err := allowed(bounded, x.options.dialer(), x.conn.Server())
	switch {
	case findings.Over(ctx, err):
		return err
	case err != nil:
		x.Unread("the bounds of sessions", err, "")
	case max(least, engine.MinTTL) > most/2:
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "no session is long enough",
			Means: "leasehold needs a session of twice the least that the servers allow, and refuses to open them.",
			Do:    "Raise maxSessionTimeout, or lower minSessionTimeout and tickTime.",
		}, "from %v to %v", least, most)
	case most/2 < usualTTL:
		x.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "sessions are short",
			Means: "A lease lasts for half of the longest session. A holder that cannot reach the servers for so long loses its lock.",
			Do:    "Raise maxSessionTimeout if programs pause for longer.",
		}, "%v at most, so leases of %v", most, most/2)
	}
	return nil
}

// digits are how many ZooKeeper appends to a node that it numbers.
const digits = 10

// numbered reports whether ZooKeeper has numbered a child, and not a program that names its
// locks by ten digits: a number counts the children that its parent ever had. A client sees
// twice that, without those that are there.
func numbered(child string, parent *zk.Stat) bool {
	n, err := strconv.ParseUint(child[max(0, len(child)-digits):], 10, 32)
	ever := uint32(parent.Cversion+parent.NumChildren) / 2
	return err == nil && len(child) >= digits && uint32(n) < ever
}

// place is a node of an examination.
type place struct {
	path     string
	numbered bool
}

// nodes examines the nodes below the root, level by level, as many as the limit allows.
func (x *examiner) nodes(ctx context.Context) error {
	seen := 0
	for level := []place{{path: x.root()}}; len(level) > 0; {
		batch := level[:min(len(level), sideBySide, x.Limit-seen)]
		level = level[len(batch):]
		if seen += len(batch); len(batch) == 0 {
			x.Stopped("%d nodes were read", seen)
			return nil
		}
		for i, n := range x.read(ctx, batch) {
			at := batch[i]
			switch {
			case findings.Over(ctx, n.err):
				return n.err
			case errors.Is(n.err, zk.ErrNoNode) && at.path == x.root():
				return engine.Refuse("zookeeper: there is no node %s: correct the path of the URL", x.root())
			case errors.Is(n.err, zk.ErrNoNode): // it is gone
			case errors.Is(n.err, zk.ErrNoAuth):
				x.Unread("the node "+at.path, n.err, "read on the nodes")
			case n.err != nil:
				x.Unread("the node "+at.path, n.err, "")
			default:
				x.node(at, n.stat)
				for _, child := range n.children {
					if below := path.Join(at.path, child); below != "/zookeeper" && len(level) <= x.Limit {
						level = append(level, place{below, numbered(child, n.stat)})
					}
				}
			}
		}
	}
	return nil
}

// readNode is a node and its children.
type readNode struct {
	children []string
	stat     *zk.Stat
	err      error
}

// read asks for some nodes at once.
func (x *examiner) read(ctx context.Context, places []place) []readNode {
	all := make([]readNode, len(places))
	var done sync.WaitGroup
	for i, p := range places {
		done.Go(func() {
			n, err := ask(ctx, x.link, func(conn *zk.Conn) (n readNode, err error) {
				n.children, n.stat, err = conn.Children(p.path)
				return n, err
			})
			n.err = err
			all[i] = n
		})
	}
	done.Wait()
	return all
}

// node examines one.
func (x *examiner) node(p place, stat *zk.Stat) {
	if int(stat.NumChildren) > x.children {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a node has too many children",
			Means: "A list of them takes long, and beyond jute.maxbuffer no client can read it: nobody can lock below it.",
			Do:    "Find the program that leaves nodes behind, and delete those that nobody needs.",
		}, "%s has %d", p.path, stat.NumChildren)
	}
	if !x.Counts(p.path) || !p.numbered {
		return
	}
	age := time.Since(time.UnixMilli(stat.Ctime)).Round(time.Second)
	switch {
	case stat.EphemeralOwner == 0:
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "a place in the queue of a lock belongs to no session",
			Means: "The node is persistent: no session ends it. Every node with a higher number waits for it, for ever.",
			Do:    "Find the program that made it without the ephemeral flag, and delete the node.",
		}, "%s, %v old", p.path, age)
	case age >= x.old:
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a place in the queue of a lock is old",
			Means: "Its session lives, so a program holds or waits for that long. It may be stuck, or have forgotten the lock.",
			Do:    "Find the program by the session in the server's log or by the cons word. Ending it ends the session.",
		}, "%s of session %#x, %v old", p.path, stat.EphemeralOwner, age)
	}
}

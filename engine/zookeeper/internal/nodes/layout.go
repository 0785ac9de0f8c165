package nodes

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"leasehold/engine"
)

// Layout is how the nodes of a name are called.
type Layout struct {
	form   form
	prefix string // of form plain
}

type form uint8

const (
	curator form = iota
	readWrite
	plain
)

// Curator is the zero Layout: InterProcessMutex, and beside it shared claims and
// permits in names of ours.
func Curator() Layout { return Layout{} }

// ReadWrite is the layout of InterProcessReadWriteLock: no permits.
func ReadWrite() Layout { return Layout{form: readWrite} }

// Plain is a prefix and ten digits: exclusive claims only. Error: a prefix that no
// node can have, or that could be mistaken for digits.
func Plain(prefix string) (Layout, error) {
	switch {
	case prefix == "" || len(prefix) > 128:
		return Layout{}, fmt.Errorf("the prefix %q of nodes has %d bytes: give one of 1 to 128", prefix, len(prefix))
	case Encode(prefix) != prefix:
		return Layout{}, fmt.Errorf("the prefix %q of nodes has characters that no node's name may have: choose another", prefix)
	}
	return Layout{plain, prefix}, nil
}

// Modes are the kinds of claim that it has names for.
func (l Layout) Modes() engine.Modes {
	switch l.form {
	case readWrite:
		return engine.Exclusive | engine.Shared
	case plain:
		return engine.Exclusive
	}
	return engine.Exclusive | engine.Shared | engine.Permits
}

// Protected: a node's name has the uuid of who made it, so that one whose creation
// was not answered is found in a list.
func (l Layout) Protected() bool { return l.form != plain }

// What stands before the digits.
const (
	protected = "_c_"
	uuidLen   = 36
	lock      = "lock-"
	read      = "__READ__"
	write     = "__WRIT__"
)

// digits is how long ZooKeeper makes a sequence number. It is a signed number of 32
// bits: see MaxSeq.
const digits = 10

// MaxSeq is the highest sequence number that is used. ZooKeeper goes on with
// negative ones after 2^31 - 1, which nobody orders rightly; what is left between
// is for nodes that are being made.
const MaxSeq = 1<<31 - 1 - 100_000

// ErrForeign: a node in the queue is not of the layout.
var ErrForeign = errors.New("not a node of this layout")

// Prefix is the name under which ZooKeeper is to make a node, to which it adds the
// digits. The layout has a name for such a claim (see [Layout.Modes]).
func (l Layout) Prefix(uuid string, permits, limit int32) string {
	switch {
	case l.form == plain:
		return l.prefix
	case l.form == readWrite && permits == limit:
		return protected + uuid + "-" + write
	case l.form == readWrite:
		return protected + uuid + "-" + read
	case permits == limit && limit == engine.Max:
		return protected + uuid + "-" + lock
	case permits == 1 && limit == engine.Max:
		return protected + uuid + "-read-" + lock
	}
	return fmt.Sprintf("%s%s-%d-of-%d-%s", protected, uuid, permits, limit, lock)
}

// Node is one place in a queue, as its name tells.
type Node struct {
	Name           string
	Seq            int64
	Permits, Limit int32
}

// Counted: neither all nor one of Max. It can hold when any of several before it go.
func (n *Node) Counted() bool { return !n.full() && !(n.Permits == 1 && n.Limit == engine.Max) }
func (n *Node) full() bool    { return n.Permits == n.Limit }

// Parse reads the name of a node.
func (l Layout) Parse(name string) (Node, error) {
	n := Node{Name: name, Permits: engine.Max, Limit: engine.Max}
	head, tail, ok := l.cut(name)
	if below, minus := strings.CutPrefix(tail, "-"); ok && minus && len(below) == digits {
		return Node{}, fmt.Errorf("%q is %w: numbers here have run over, past 2^31: remove the node above when the queue is empty", name, ErrForeign)
	}
	if !ok || len(tail) != digits {
		return Node{}, fmt.Errorf("%q is %w", name, ErrForeign)
	}
	seq, err := strconv.ParseUint(tail, 10, 31)
	if err != nil {
		return Node{}, fmt.Errorf("%q is %w: it does not end with a number", name, ErrForeign)
	}
	n.Seq = int64(seq)
	switch {
	case l.form == readWrite && strings.HasSuffix(head, read):
		n.Permits = 1
	case l.form == curator:
		n.Permits, n.Limit = weight(head)
	}
	return n, nil
}

// cut divides a name into what it says and the digits, as Curator does: after the
// last of its marks, wherever that stands.
func (l Layout) cut(name string) (head, tail string, ok bool) {
	marks := []string{lock}
	switch l.form {
	case plain:
		tail, ok = strings.CutPrefix(name, l.prefix)
		return l.prefix, tail, ok
	case readWrite:
		marks = []string{read, write}
	}
	for _, mark := range marks {
		if i := strings.LastIndex(name, mark); i >= 0 {
			i += len(mark)
			return name[:i], name[i:], true
		}
	}
	return "", "", false
}

// weight is what a name in Curator's layout says beside its number. Whatever we
// did not write so is Curator's, or of somebody who does as it does: exclusive.
func weight(head string) (permits, limit int32) {
	rest := strings.TrimSuffix(head, lock)
	if strings.HasPrefix(rest, protected) && len(rest) > len(protected)+uuidLen {
		switch rest = rest[len(protected)+uuidLen:]; rest {
		case "-":
		case "-read-":
			return 1, engine.Max
		default:
			n, of, ok := strings.Cut(strings.Trim(rest, "-"), "-of-")
			u, err1 := strconv.ParseInt(n, 10, 32)
			m, err2 := strconv.ParseInt(of, 10, 32)
			if ok && err1 == nil && err2 == nil && u >= 1 && u <= m && rest == fmt.Sprintf("-%d-of-%d-", u, m) {
				return int32(u), int32(m)
			}
		}
	}
	return engine.Max, engine.Max
}

// Has reports whether a node's name says that it was made with this uuid.
func Has(name, uuid string) bool { return strings.HasPrefix(name, protected+uuid+"-") }

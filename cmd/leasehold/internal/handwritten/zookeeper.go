package handwritten

import (
	"context"
	"errors"
	"log"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// OneNode takes the lock by creating one ephemeral node; everybody else watches it.
//
// Wrong on purpose: each release wakes every waiter, and each of them asks twice.
type OneNode struct {
	Conn *zk.Conn
	Path string
}

func (l *OneNode) Lock(ctx context.Context) error {
	for {
		_, err := l.Conn.Create(l.Path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		taken, _, gone, err := l.Conn.ExistsW(l.Path)
		if err != nil {
			return err
		}
		if !taken {
			continue
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *OneNode) Unlock(context.Context) error { return l.Conn.Delete(l.Path, -1) }

// sequence is a place in a queue of sequential ephemeral nodes.
type sequence struct {
	Conn   *zk.Conn
	Parent string // must exist

	node string
}

func (l *sequence) join() (err error) {
	l.node, err = l.Conn.Create(l.Parent+"/client", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	return err
}

// place is where our node stands among the children of the parent.
func (l *sequence) place(children []string) int {
	slices.Sort(children)
	return slices.Index(children, strings.TrimPrefix(l.node, l.Parent+"/"))
}

func (l *sequence) Unlock(context.Context) error { return l.Conn.Delete(l.node, -1) }

// WatchParent has sequential nodes; each waiter watches the parent.
//
// Wrong on purpose: each change wakes every waiter, and each of them reads the whole list.
type WatchParent struct{ sequence }

// NewWatchParent is one on a parent that must exist.
func NewWatchParent(conn *zk.Conn, parent string) *WatchParent {
	return &WatchParent{sequence{Conn: conn, Parent: parent}}
}

func (l *WatchParent) Lock(ctx context.Context) error {
	if err := l.join(); err != nil {
		return err
	}
	for {
		children, _, changed, err := l.Conn.ChildrenW(l.Parent)
		if err != nil || l.place(children) == 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), l.Unlock(ctx))
		}
	}
}

// Tutorial has sequential nodes; each waiter watches the one before it. It is the
// ZooKeeper lock of the tutorials.
//
// Wrong on purpose, as they are: it lists once, prints an error as if that were the end
// of it, and takes every end of its predecessor for its own turn.
type Tutorial struct{ sequence }

// NewTutorial is one on a parent that must exist.
func NewTutorial(conn *zk.Conn, parent string) *Tutorial {
	return &Tutorial{sequence{Conn: conn, Parent: parent}}
}

func (l *Tutorial) Lock(ctx context.Context) error {
	if err := l.join(); err != nil {
		return err
	}
	children, _, err := l.Conn.Children(l.Parent)
	if err != nil {
		return err
	}
	place := l.place(children)
	if place == 0 {
		return nil
	}
	_, _, gone, err := l.Conn.GetW(l.Parent + "/" + children[place-1])
	if err != nil {
		log.Print(err) // the tutorials print the stack trace, and lock() returns
		return nil
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), l.Unlock(ctx))
	}
}

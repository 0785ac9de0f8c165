package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// order is the first line that a process of a demo reads.
type order struct {
	Scheme string        // of a hand-written lock; ours otherwise
	Server string        // what the lock is on: a URL, or several of a list
	Prefix string        // of every name
	Owner  string        // who this is, for locks with a value
	Expiry time.Duration // or TTL; 0: the engine's own
	Ahead  time.Duration // of this process's clock
}

// player is one process's lock, of either kind.
type player interface {
	lock(ctx context.Context, name string) error
	unlock(ctx context.Context, name string) error
	believes(name string) error                  // nil: this process believes to hold
	loss(ctx context.Context, name string) error // waits until the process learns that it has lost
	pass(name string) string                     // what it shows to a resource; empty: nothing
	close() error
}

func (o *order) player(ctx context.Context) (player, error) {
	if o.Scheme == "" {
		return openOurs(ctx, o)
	}
	if strings.HasPrefix(o.Scheme, "zookeeper-") {
		return o.onZooKeeper(ctx)
	}
	return o.onRedis()
}

// Play is a process of a demo: it carries out what its parent writes, line by line, and
// answers each by a line. It ends when its parent is gone.
func Play(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan string)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			asked <- lines.Text()
		}
	}()
	next := func() (string, bool) {
		select {
		case line := <-asked:
			return line, true
		case <-ctx.Done():
			return "", false
		}
	}
	first, ok := next()
	if !ok {
		return errors.New("the parent gave no order")
	}
	var o order
	if err := json.Unmarshal([]byte(first), &o); err != nil {
		return err
	}
	p, err := o.player(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	for answer := "ready"; ; {
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
		line, ok := next()
		if !ok {
			return nil
		}
		if answer, err = carryOut(ctx, p, strings.Fields(line)); err != nil {
			return err
		}
	}
}

// The answers of a process.
const (
	yes = "yes"
	no  = "no" // and why
)

// carryOut does what one line says: a verb, a name, and for how long at most.
func carryOut(ctx context.Context, p player, words []string) (string, error) {
	if len(words) != 3 {
		return "", fmt.Errorf("not an order: %q", words)
	}
	verb, name := words[0], words[1]
	within, err := time.ParseDuration(words[2])
	if err != nil {
		return "", err
	}
	gaveUp := fmt.Errorf("gave up after %v", within)
	ctx, cancel := context.WithTimeoutCause(ctx, within, gaveUp)
	defer cancel()
	switch verb {
	case "lock":
		err = p.lock(ctx, name)
		if errors.Is(err, context.DeadlineExceeded) {
			err = gaveUp // a client may see the deadline before the context has a cause
		}
	case "unlock":
		err = p.unlock(ctx, name)
	case "holds":
		err = p.believes(name)
	case "loss":
		err = p.loss(ctx, name)
	case "pass":
		return yes + " " + p.pass(name), nil
	default:
		return "", fmt.Errorf("not an order: %q", words)
	}
	if err != nil {
		return no + " " + strings.ReplaceAll(err.Error(), "\n", " "), nil
	}
	return yes, nil
}

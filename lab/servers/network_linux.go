package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// NewNetwork makes a network of hosts with those names. It needs root, and
// skips the test loudly where that, or what the kernel would have to allow, is
// missing.
func NewNetwork(t TB, names ...string) *Network {
	t.Helper()
	Need(t, "ip", "unshare", "nsenter")
	if os.Geteuid() != 0 {
		Missing(t, "only root may make network namespaces")
	}
	n := &Network{}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Logf("closing a network: %v", err)
		}
	})
	var err error
	if n.hub, err = namespace(); err != nil {
		Missing(t, err.Error())
	}
	if err := n.build(names); err != nil {
		t.Fatalf("network: %v", err)
	}
	return n
}

func (n *Network) build(names []string) error {
	if err := n.ip(n.hub, "link", "add", "hub", "type", "bridge"); err != nil {
		return err
	}
	if err := n.ip(n.hub, "link", "set", "hub", "up"); err != nil {
		return err
	}
	for i, name := range names {
		p, err := namespace()
		if err != nil {
			return err
		}
		h := &Host{Name: name, Addr: fmt.Sprintf("10.0.0.%d", i+1), namespace: p, port: fmt.Sprintf("port%d", i+1), network: n}
		n.Hosts = append(n.Hosts, h)
		err = errors.Join(
			n.ip(n.hub, "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(p.PID())),
			n.ip(n.hub, "link", "set", h.port, "master", "hub", "up"),
			n.ip(p, "link", "set", "lo", "up"),
			n.ip(p, "address", "add", h.Addr+"/24", "dev", "eth0"),
			n.ip(p, "link", "set", "eth0", "up"),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// namespace starts a process that does nothing, in a network of its own.
func namespace() (*Process, error) {
	dir, err := os.MkdirTemp("", "lh-net")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// The shell speaks only once it is there: until then a command for that
	// network would change the one of the machine.
	const ready = "in a network of its own"
	p, err := Start(Command{Program: "unshare", Args: []string{"--net", "sh", "-c", "echo " + ready + "; exec sleep infinity"}, Dir: dir})
	if err != nil {
		return nil, err
	}
	err = p.Until(startBound, func() error {
		if !strings.HasSuffix(strings.TrimSpace(p.Tail()), ready) {
			return errors.New("not there yet")
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a network namespace: %w", err), p.Kill())
	}
	return p, nil
}

// Close ends the network. What still runs on its hosts keeps its host and loses
// the switch.
func (n *Network) Close() error {
	var err error
	for _, h := range n.Hosts {
		err = errors.Join(err, h.namespace.Kill())
	}
	if n.hub != nil {
		err = errors.Join(err, n.hub.Kill())
	}
	return err
}

// Dial connects from this host, so that a client in this process can stand on
// it. The address must be numeric.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		// A socket belongs to the network that its thread was in when it was
		// made. The thread is not let go: it ends with this goroutine, and nothing
		// else is ever run there.
		runtime.LockOSThread()
		if err := h.enter(); err != nil {
			done <- dialed{nil, fmt.Errorf("host %s: %w", h.Name, err)}
			return
		}
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
		done <- dialed{c, err}
	}()
	d := <-done
	return d.conn, d.err
}

// enter takes this thread to the host.
func (h *Host) enter() error {
	if !h.namespace.Alive() {
		return net.ErrClosed
	}
	f, err := os.Open(path(h.namespace))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

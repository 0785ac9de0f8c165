package liveness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine/filelock/internal/disk"
)

// Wakes: clients of this system wake each other.
const Wakes = true

// Each client has two sockets beside its file: a datagram socket that notifications
// are sent to, and a listening one that others connect to only because the
// kernel ends those connections when the process ends.
const (
	notificationsSuffix = ".d"
	lifeSuffix          = ".s"
)

// socketPath leads through the descriptor of the directory: the address of a
// socket has room for 107 bytes, the path of a state directory may need more.
func socketPath(clients disk.Dir, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", clients.FD(), name)
}

// bell is this client's sockets.
type notifier struct {
	notifications *net.UnixConn
	life          *net.UnixListener

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func newNotifier(clients disk.Dir, client string) (*notifier, error) {
	notifications, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socketPath(clients, client+notificationsSuffix), Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	life, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketPath(clients, client+lifeSuffix), Net: "unix"})
	if err != nil {
		notifications.Close()
		return nil, err
	}
	life.SetUnlinkOnClose(false) // by removeClient, which also serves the dead
	return &notifier{notifications: notifications, life: life, conns: map[net.Conn]bool{}}, nil
}

// receive calls got with every notification, and drained whenever there is no more
// after at least one, until the notifier is closed.
func (b *notifier) receive(got func([]byte), drained func()) {
	raw, err := b.notifications.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, notificationHead+1024)
	fresh := false
	_ = raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Read(int(fd), buf)
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				if !fresh {
					return false // wait for more
				}
				fresh = false
				drained()
				// and read once more: what came meanwhile, or EAGAIN
			case err != nil:
				return true
			default:
				fresh = true
				got(buf[:n])
			}
		}
	})
}

// accept keeps the connections of those who want to hear of our end, at most
// so many. More may connect, as far as the kernel's backlog goes, and are told
// of the end all the same.
func (b *notifier) accept(most int) {
	slots := make(chan struct{}, most)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		slots <- struct{}{}
		c, err := b.life.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely. Whoever waits in the backlog
			// meanwhile is told of our end as well.
			<-slots
			time.Sleep(100 * time.Millisecond)
			continue
		}
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			c.Close()
			return
		}
		b.conns[c] = true
		b.mu.Unlock()
		wg.Go(func() {
			defer func() { <-slots }()
			var one [1]byte
			_, _ = c.Read(one[:]) // nothing is ever sent: this is the other's end, or ours
			b.mu.Lock()
			delete(b.conns, c)
			b.mu.Unlock()
			c.Close()
		})
	}
}

func (b *notifier) close() {
	b.mu.Lock()
	b.closed = true
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.notifications.Close()
	b.life.Close()
}

// notifyConn is a socket connected to one peer's notifications.
type notifyConn struct{ fd int }

func dialNotifications(clients disk.Dir, client string) (notifyConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return notifyConn{}, err
	}
	if err := disk.Again(func() error {
		return unix.Connect(fd, &unix.SockaddrUnix{Name: socketPath(clients, client+notificationsSuffix)})
	}); err != nil {
		unix.Close(fd)
		return notifyConn{}, err
	}
	return notifyConn{fd}, nil
}

// send reports full if the message had no room; nothing else is retried.
func (c notifyConn) send(b []byte) (full bool, err error) {
	err = disk.Again(func() error { return unix.Send(c.fd, b, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT) })
	if err == unix.EAGAIN || err == unix.ENOBUFS {
		return true, nil
	}
	return false, err
}

func (c notifyConn) close() { unix.Close(c.fd) }

// dialLife connects to a client; the connection ends when it does. full means
// that its backlog has no room: nothing learned. Any other error means that
// nobody listens.
func dialLife(clients disk.Dir, client string) (conn net.Conn, full bool, err error) {
	conn, err = net.Dial("unix", socketPath(clients, client+lifeSuffix))
	return conn, errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EMFILE) || errors.Is(err, os.ErrPermission), err
}

package main

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// message is what the processes of a run tell each other. One field is set.
// The encoding is gob, because paths, labels and URLs need not be UTF-8.
type message struct {
	Order   *order         // launcher to keeper, first
	Signal  syscall.Signal // launcher to keeper: for the command
	Running bool           // keeper to launcher: the command runs under a lease
	Life    bool           // keeper to both others: the life file comes with it
	Start   bool           // keeper to reaper: a file with the program comes with it
	Started *started       // reaper to keeper: whether it could be started
	LetGo   bool           // keeper to reaper: what is left may go on
	Stopped syscall.Signal // reaper to keeper to launcher: the command was stopped
	Ended   *status        // reaper to keeper: the command has; keeper to launcher, last: all is said and done
}

// delivery is a message with the descriptor that came with it.
type delivery struct {
	message
	file *os.File
}

// maxMessage bounds one message. A socket's buffer holds more.
const maxMessage = 64 << 10

// wire is one end of the socket between two of them. It keeps the boundaries of
// messages, carries a descriptor, and ends when the other process does,
// however it does.
type pipe struct {
	conn *net.UnixConn
	mu   sync.Mutex // of sending
}

// newWires is both ends; theirs is a plain descriptor, to be inherited.
func newWires() (ours *pipe, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	ours, err = newPipe(fds[0])
	if err != nil {
		unix.Close(fds[1])
		return nil, -1, err
	}
	return ours, fds[1], nil
}

// newPipe takes fd over.
func newPipe(fd int) (*pipe, error) {
	f := os.NewFile(uintptr(fd), "wire")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is not open", fd)
	}
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("descriptor %d is not a Unix socket", fd)
	}
	return &pipe{conn: uc}, nil
}

// send sends m with the descriptor of f, if any. Failing means that the other
// end is gone, which whoever receives hears too.
func (w *pipe) send(m message, f *os.File) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(m); err != nil {
		return err
	}
	text := b.Bytes()
	if len(text) > maxMessage {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(text), maxMessage)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Both have better things to do than to wait for one that is stopped.
	w.conn.SetWriteDeadline(time.Now().Add(time.Second))
	if f == nil {
		_, err := w.conn.Write(text)
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		_, _, failed = w.conn.WriteMsgUnix(text, unix.UnixRights(int(fd)), nil)
	})
	if err != nil {
		return err
	}
	return failed
}

// receive waits for a message. The file is the descriptor that came with it.
func (w *pipe) receive() (m message, f *os.File, err error) {
	text := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := w.conn.ReadMsgUnix(text, oob)
	if err != nil {
		return m, nil, err
	}
	if oobn > 0 {
		cs, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return m, nil, err
		}
		for _, c := range cs {
			fds, err := unix.ParseUnixRights(&c)
			if err != nil {
				return m, nil, err
			}
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				f = os.NewFile(uintptr(fd), "received")
			}
		}
	}
	return m, f, gob.NewDecoder(bytes.NewReader(text[:n])).Decode(&m)
}

// receiveAll passes everything on until the other end is gone.
func (w *pipe) receiveAll(to chan<- delivery) {
	defer close(to)
	for {
		m, f, err := w.receive()
		if err != nil {
			return
		}
		to <- delivery{m, f}
	}
}

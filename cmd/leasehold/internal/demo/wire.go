package demo

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
)

// wire stands between ZooKeeper's clients and the server. It counts requests, and can be
// slow at one moment: after a client's list.
type wire struct {
	listener net.Listener
	server   address

	mu       sync.Mutex
	requests int
	slow     bool          // hold what follows the next list
	listed   chan struct{} // closed when that list has passed
	released chan struct{} // closed when what is held may go on
	open     []net.Conn
}

// The operations of ZooKeeper's protocol that matter here.
const (
	opGetChildren  = 8
	opPing         = 11
	opGetChildren2 = 12
)

func newWire(server address) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: l, server: server, listed: make(chan struct{}), released: make(chan struct{})}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(client)
		}
	}()
	return w, nil
}

// through is the URL of the server by way of the wire, which is of this machine and in
// plain text.
func (w *wire) through() string {
	return "zookeeper://" + w.listener.Addr().String() + (&url.URL{Path: "/" + w.server.Path}).EscapedPath()
}

// dial connects to the first server that answers.
func (w *wire) dial() (c net.Conn, err error) {
	for _, host := range w.server.hosts {
		if c, err = w.server.dial("tcp", host, patience); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (w *wire) close() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		c.Close()
	}
}

// count is how many requests have passed, without those that only keep a session.
func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

func (w *wire) slowDown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = true
}

func (w *wire) serve(client net.Conn) {
	defer client.Close()
	server, err := w.dial()
	if err != nil {
		return
	}
	defer server.Close()
	w.mu.Lock()
	w.open = append(w.open, client, server)
	w.mu.Unlock()
	go func() {
		io.Copy(client, server)
		client.Close()
	}()
	// A packet is its length, the number of the request, the operation and the rest. The
	// first asks for a session and has neither number nor operation.
	for first := true; ; first = false {
		head := make([]byte, 4)
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		packet := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
		if _, err := io.ReadFull(client, packet[4:]); err != nil {
			return
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
		if !first && len(packet) >= 12 && w.passed(binary.BigEndian.Uint32(packet[8:])) {
			<-w.released
		}
	}
}

// passed counts a request, and reports whether what follows is to be held.
func (w *wire) passed(operation uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if operation != opPing {
		w.requests++
	}
	if !w.slow || operation != opGetChildren && operation != opGetChildren2 {
		return false
	}
	w.slow = false
	close(w.listed)
	return true
}

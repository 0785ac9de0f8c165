package wire

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// side is one connection of a Conn. It notes its end, and that of a write, which goes on until
// the connection is closed.
type side struct {
	net.Conn
	name    string
	note    func(string)
	writing chan struct{} // closed when a write begins
	closed  chan struct{}
	once    sync.Once
}

func (s *side) Write([]byte) (int, error) {
	close(s.writing)
	<-s.closed
	s.note("the write ends")
	return 0, net.ErrClosed
}

func (s *side) Close() error {
	s.once.Do(func() {
		s.note("the " + s.name + " closes")
		close(s.closed)
	})
	return nil
}

// Otherwise a request that was under way may reach the server after its own repetition, and
// after what the client did since.
func TestAClientSeesTheEndOnlyWhenNothingOfItCanArrive(t *testing.T) {
	var mu sync.Mutex
	var noted []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		noted = append(noted, what)
	}
	new := func(name string) *side {
		return &side{name: name, note: note, writing: make(chan struct{}), closed: make(chan struct{})}
	}
	server, client := new("server"), new("client")
	in, requests := io.Pipe()
	client.Conn = reader{Reader: in}
	c := &Conn{p: &Proxy{changed: make(chan struct{}), conns: map[*Conn]struct{}{}, cut: [2]int{-1, -1}}, client: client, server: server}
	c.p.conns[c] = struct{}{}
	var copying sync.WaitGroup
	copying.Go(func() { c.copy(server, client, request) })
	if _, err := io.WriteString(requests, "a request"); err != nil {
		t.Fatal(err)
	}
	<-server.writing
	c.reset()
	requests.Close()
	copying.Wait()
	if want := []string{"the server closes", "the write ends", "the client closes"}; !slices.Equal(noted, want) {
		t.Errorf("%q, not %q", noted, want)
	}
}

// reader is a connection of which only Read is used.
type reader struct {
	net.Conn
	io.Reader
}

func (r reader) Read(b []byte) (int, error) { return r.Reader.Read(b) }

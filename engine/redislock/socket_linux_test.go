package redislock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tcpPair is a connection to be taken over, and its peer.
func tcpPair(t testing.TB) (ours, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); p.Close() })
	return c.(*net.TCPConn), p.(*net.TCPConn)
}

// kinds of sockets.
var socketKinds = map[string]func(net.Conn) (net.Conn, error){
	"that parks": func(c net.Conn) (net.Conn, error) { return newSocket(c, false) },
	"that blocks": func(c net.Conn) (net.Conn, error) {
		s, err := newSocket(c, true)
		if err == nil {
			s.pace = pace{} // hot
		}
		return s, err
	},
}

func eachSocket(t *testing.T, f func(t *testing.T, s net.Conn, peer *net.TCPConn)) {
	t.Helper()
	for kind, take := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			ours, peer := tcpPair(t)
			s, err := take(ours)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			f(t, s, peer)
		})
	}
}

// base is the socket inside.
func base(c net.Conn) *socket {
	return c.(*socket)
}

// reading begins a Read and returns when it is in the system call, or parked.
func reading(t *testing.T, c net.Conn) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		n, err := c.Read(make([]byte, 16))
		if err == nil {
			err = fmt.Errorf("%d bytes and no error", n)
		}
		done <- err
	}()
	s := base(c)
	until(t, "Read has not begun", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.users > 0
	})
	return done
}

func TestSocketReadEnds(t *testing.T) {
	t.Run("by Close", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, _ *net.TCPConn) {
			done := reading(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := ended(t, done); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Read: %v", err)
			}
			if err := s.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed twice: %v", err)
			}
			if _, err := s.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("Read of a closed socket: %v", err)
			}
			if _, err := s.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write to a closed socket: %v", err)
			}
		})
	})
	t.Run("by the peer", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			done := reading(t, s)
			peer.Close()
			if err := ended(t, done); err != io.EOF {
				t.Errorf("Read: %v", err)
			}
		})
	})
	t.Run("by the peer's reset", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			done := reading(t, s)
			peer.SetLinger(0)
			peer.Close()
			if err := ended(t, done); !broken(err) {
				t.Errorf("Read: %v", err)
			}
		})
	})
	t.Run("by a deadline", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, _ *net.TCPConn) {
			done := reading(t, s)
			if err := s.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if err := ended(t, done); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read: %v", err)
			}
		})
	})
	t.Run("by a deadline that has passed", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, _ *net.TCPConn) {
			if err := s.SetDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
			until(t, "it does not pass", func() bool { return late(s) })
			if err := ended(t, readOnce(s)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read: %v", err)
			}
			if _, err := s.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write: %v", err)
			}
		})
	})
}

// readOnce is reading where Read may be over at once.
func readOnce(c net.Conn) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 16))
		done <- err
	}()
	return done
}

// late says that the deadline has passed.
func late(c net.Conn) bool {
	s := base(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

func TestSocketDeadlineTakenBack(t *testing.T) {
	for name, take := range map[string]func(net.Conn) error{
		"by none":    func(s net.Conn) error { return s.SetDeadline(time.Time{}) },
		"by a later": func(s net.Conn) error { return s.SetReadDeadline(time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
				s.SetDeadline(time.Now().Add(200 * time.Millisecond))
				if err := take(s); err != nil {
					t.Fatal(err)
				}
				// The time that must pass without an effect.
				time.Sleep(300 * time.Millisecond)
				roundTrip(t, s, peer)
			})
		})
	}
	t.Run("after it has passed while nobody waited", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			s.SetDeadline(time.Now())
			until(t, "it does not pass", func() bool { return late(s) })
			s.SetDeadline(time.Time{})
			roundTrip(t, s, peer)
		})
	})
	t.Run("by being somebody else's business", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			s.SetDeadline(time.Now().Add(time.Hour))
			base(s).ignoreDeadlines()
			s.SetDeadline(time.Now())
			s.SetReadDeadline(time.Now())
			s.SetWriteDeadline(time.Now())
			if base(s).deadline != nil {
				t.Error("a timer runs")
			}
			roundTrip(t, s, peer)
		})
	})
}

func roundTrip(t *testing.T, s, peer net.Conn) {
	t.Helper()
	for _, d := range [][2]net.Conn{{s, peer}, {peer, s}} {
		if _, err := d[0].Write([]byte("hello")); err != nil {
			t.Fatalf("Write: %v", err)
		}
		var b [5]byte
		if _, err := io.ReadFull(d[1], b[:]); err != nil || string(b[:]) != "hello" {
			t.Fatalf("Read: %q %v", b, err)
		}
	}
}

// TestSocketWriteToClosedPeer would end the test's process if SIGPIPE did.
func TestSocketWriteToClosedPeer(t *testing.T) {
	eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
		peer.SetLinger(0)
		peer.Close()
		var err error
		for range 100 {
			if _, err = s.Write([]byte("x")); err != nil {
				break
			}
		}
		if !broken(err) {
			t.Errorf("Write: %v", err)
		}
	})
}

func TestSocketCloseEndsBlockedWrite(t *testing.T) {
	eachSocket(t, func(t *testing.T, s net.Conn, _ *net.TCPConn) {
		done := make(chan error, 1)
		var sum int
		go func() {
			n, err := s.Write(make([]byte, 64<<20)) // more than any buffer of a kernel
			sum = n
			done <- err
		}()
		until(t, "Write has not begun", func() bool {
			base(s).mu.Lock()
			defer base(s).mu.Unlock()
			return base(s).users > 0
		})
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := ended(t, done); !errors.Is(err, net.ErrClosed) || sum >= 64<<20 {
			t.Errorf("Write: %d bytes, %v", sum, err)
		}
	})
}

// TestSocketDescriptorIsNotAnotherConnections closes under readers and writers
// while new connections take every descriptor that comes free: bytes of one that
// turn up in another are a descriptor closed while it was in use.
func TestSocketDescriptorIsNotAnotherConnections(t *testing.T) {
	for kind, take := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			var all sync.WaitGroup
			for w := range 8 {
				all.Go(func() {
					for round := range 40 {
						ours, peer := tcpPair(t)
						s, err := take(ours)
						if err != nil {
							t.Error(err)
							return
						}
						mark := []byte(fmt.Sprintf("%02d.%03d;", w, round))
						only := func(who string, c net.Conn) {
							b := make([]byte, len(mark)*100)
							var got []byte
							for {
								n, err := c.Read(b)
								got = append(got, b[:n]...)
								for len(got) >= len(mark) {
									if string(got[:len(mark)]) != string(mark) {
										t.Errorf("%s reads %q, want %q", who, got[:len(mark)], mark)
										return
									}
									got = got[len(mark):]
								}
								if err != nil {
									return
								}
							}
						}
						write := func(c net.Conn) {
							for range 20 {
								if _, err := c.Write(mark); err != nil {
									return
								}
							}
						}
						var both sync.WaitGroup
						both.Go(func() { only("the socket", s) })
						both.Go(func() { only("the peer", peer) })
						both.Go(func() { write(s) })
						both.Go(func() { write(peer) })
						for range 2 {
							both.Go(func() {
								for range round % 5 {
									runtime.Gosched()
								}
								s.Close()
							})
						}
						both.Go(func() { s.SetDeadline(time.Now().Add(time.Duration(round%3) * time.Millisecond)) })
						both.Wait()
						peer.Close()
					}
				})
			}
			all.Wait()
		})
	}
}

func TestSocketRefusesWhatReadsAhead(t *testing.T) {
	take := func(t *testing.T, c, peer net.Conn) {
		if s, err := newSocket(c, true); err == nil {
			t.Fatalf("newSocket took %T", s)
		}
		go peer.Write([]byte("still"))
		var b [5]byte
		if _, err := io.ReadFull(c, b[:]); err != nil || string(b[:]) != "still" {
			t.Errorf("afterwards: %q %v", b, err)
		}
	}
	t.Run("net.Pipe", func(t *testing.T) {
		c, peer := net.Pipe()
		defer c.Close()
		defer peer.Close()
		take(t, c, peer)
	})
	t.Run("TLS", func(t *testing.T) {
		web := httptest.NewTLSServer(nil) // for its certificate
		certs := web.TLS.Certificates
		web.Close()
		r := openFDs(t)
		ours, theirs := tcpPair(t)
		c, peer := tls.Client(ours, &tls.Config{InsecureSkipVerify: true}), tls.Server(theirs, &tls.Config{Certificates: certs})
		take(t, c, peer)
		c.Close()
		peer.Close()
		if n := openFDs(t); n > r {
			t.Errorf("%d descriptors more", n-r)
		}
	})
	t.Run("closed", func(t *testing.T) {
		c, _ := tcpPair(t)
		c.Close()
		before := openFDs(t)
		if _, err := newSocket(c, true); err == nil {
			t.Error("newSocket took a closed connection")
		}
		if n := openFDs(t); n > before {
			t.Errorf("%d descriptors more", n-before)
		}
	})
}

func TestSocketTakesTheConnectionOver(t *testing.T) {
	eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
		if s.LocalAddr().String() != peer.RemoteAddr().String() || s.RemoteAddr().String() != peer.LocalAddr().String() {
			t.Errorf("%v to %v", s.LocalAddr(), s.RemoteAddr())
		}
		roundTrip(t, s, peer)
	})
}

// openFDs counts sockets, epolls and eventfds: other descriptors may come and go with
// other parts of the test's process.
func openFDs(t testing.TB) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if strings.HasPrefix(to, "socket:") || strings.Contains(to, "eventpoll") || strings.Contains(to, "eventfd") {
			n++
		}
	}
	return n
}

func TestSocketLeaksNoDescriptor(t *testing.T) {
	// The collector closes files that nobody closed.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for name, end := range map[string]func(t *testing.T, s, peer net.Conn){
		"closed":               func(t *testing.T, s, _ net.Conn) { s.Close() },
		"closed twice":         func(t *testing.T, s, _ net.Conn) { s.Close(); s.Close() },
		"closed by the peer":   func(t *testing.T, s, peer net.Conn) { peer.Close(); s.Read(make([]byte, 1)); s.Close() },
		"hung up":              func(t *testing.T, s, _ net.Conn) { s.SetDeadline(time.Now()); s.Read(make([]byte, 1)); s.Close() },
		"closed under a Read":  func(t *testing.T, s, _ net.Conn) { done := reading(t, s); s.Close(); ended(t, done) },
		"closed with deadline": func(t *testing.T, s, _ net.Conn) { s.SetDeadline(time.Now().Add(time.Hour)); s.Close() },
	} {
		for kind, take := range socketKinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				before := openFDs(t)
				for range 100 {
					ours, peer := tcpPair(t)
					s, err := take(ours)
					if err != nil {
						t.Fatal(err)
					}
					end(t, s, peer)
					peer.Close()
				}
				// Tests in parallel may have some of their own for a while.
				until(t, "descriptors leaked", func() bool { return openFDs(t) < before+50 })
			})
		}
	}
}

// messages reads as many numbered messages and wants them in order.
func messages(s net.Conn, n int) error {
	b := make([]byte, 8)
	for i := range n {
		if _, err := io.ReadFull(s, b); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if got, err := strconv.Atoi(string(b)); err != nil || got != i {
			return fmt.Errorf("message %d is %q", i, b)
		}
	}
	return nil
}

func message(i int) []byte { return []byte(fmt.Sprintf("%08d", i)) }

func TestSocketReadsEverythingInOrder(t *testing.T) {
	read := func(s net.Conn, n int) <-chan error {
		done := make(chan error, 1)
		go func() { done <- messages(s, n) }()
		return done
	}
	t.Run("there before it is a socket", func(t *testing.T) {
		for kind, take := range socketKinds {
			t.Run(kind, func(t *testing.T) {
				ours, peer := tcpPair(t)
				peer.Write(message(0))
				time.Sleep(10 * time.Millisecond) // Go's poller has seen it
				s, err := take(ours)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if err := ended(t, read(s, 1)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	t.Run("there before it waits", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			for i := range 100 {
				peer.Write(message(i))
			}
			if err := ended(t, read(s, 100)); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("far apart", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			done := read(s, 30)
			for i := range 30 {
				time.Sleep(cold) // who blocked at first parks then
				peer.Write(message(i))
			}
			if err := ended(t, done); err != nil {
				t.Error(err)
			}
			if !base(s).armed {
				t.Error("what comes now and then is waited for by blocking")
			}
		})
	})
	t.Run("in a row", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			const n = 5000
			done := read(s, n)
			for i := range n {
				peer.Write(message(i)) // one by one: Nagle is off
			}
			if err := ended(t, done); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("in pieces", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			done := read(s, 50)
			for i := range 50 {
				for _, b := range message(i) {
					peer.Write([]byte{b})
					if i%10 == 0 {
						time.Sleep(hot) // across both ways of waiting
					}
				}
			}
			if err := ended(t, done); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("back and forth, as a lock goes around", func(t *testing.T) {
		eachSocket(t, func(t *testing.T, s net.Conn, peer *net.TCPConn) {
			done := read(s, 500)
			echoed := make(chan error, 1)
			go func() { // nothing stops it from writing while it reads
				_, err := io.Copy(io.Discard, peer)
				echoed <- err
			}()
			for i := range 500 {
				s.Write([]byte("ping"))
				peer.Write(message(i))
				if i%100 == 0 {
					time.Sleep(2 * cold)
				}
			}
			if err := ended(t, done); err != nil {
				t.Error(err)
			}
			s.Close()
			if err := ended(t, echoed); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestPace(t *testing.T) {
	at := time.Now()
	p := pace{gap: cold}
	uses := func(n int, gap time.Duration) {
		for range n {
			at = at.Add(gap)
			p.tick(at)
		}
	}
	for _, step := range []struct {
		why string
		n   int
		gap time.Duration
		hot bool
	}{
		{"a first use", 1, time.Hour, false},
		{"a second", 1, time.Microsecond, false},
		{"many in a row", 20, 100 * time.Microsecond, true},
		{"a pause", 1, time.Hour, true},
		{"and on", 5, 100 * time.Microsecond, true},
		{"now and then", 10, 20 * time.Millisecond, false},
		{"a lock of eight that goes around", 50, 1200 * time.Microsecond, true},
		{"two long pauses for each short one", 50, 3 * time.Millisecond, false},
	} {
		if uses(step.n, step.gap); p.hot() != step.hot {
			t.Errorf("%s: hot is %v, want %v", step.why, p.hot(), step.hot)
		}
	}
	never := pace{parks: true}
	for range 100 {
		never.tick(at)
	}
	if never.hot() {
		t.Error("who may not block does")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if p := newPace(true); !p.parks {
		t.Error("blocks where there is one processor")
	}
}

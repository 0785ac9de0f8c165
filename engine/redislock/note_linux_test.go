package redislock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// note is a message of a subscription, numbered.
func note(i int) string {
	return fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$8\r\n%08d\r\n", i)
}

// noteSockets are a note socket and its peer, once for each way to attend.
func noteSockets(t *testing.T, f func(t *testing.T, s *noteSocket, peer *net.TCPConn)) {
	t.Helper()
	for kind, p := range map[string]pace{"blocking": {}, "parked": {parks: true}} {
		t.Run(kind, func(t *testing.T) {
			ours, peer := tcpPair(t)
			s, err := newNoteSocket(ours)
			if err != nil {
				t.Fatal(err)
			}
			s.visits = p
			t.Cleanup(func() { s.Close() })
			f(t, s, peer)
		})
	}
}

// attendance is a call of attend.
type attendance struct {
	over  atomic.Bool
	taken chan string
	done  chan struct{}
}

// attend begins to attend, and returns when it waits, or is over.
func attend(t *testing.T, s *noteSocket) *attendance {
	t.Helper()
	a := &attendance{taken: make(chan string, 10_000), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		s.attend(a.over.Load, func(message []string) bool {
			if len(message) != 3 || message[0] != "message" {
				return false
			}
			a.taken <- message[2]
			return true
		})
	}()
	until(t, "attend neither waits nor ends", func() bool {
		select {
		case <-a.done:
			return true
		default:
			return s.asleep.Load()
		}
	})
	return a
}

func (a *attendance) takes(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		select {
		case m := <-a.taken:
			if m != fmt.Sprintf("%08d", i) {
				t.Fatalf("took %s instead of %d", m, i)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("did not take %d", i)
		}
	}
}

func (a *attendance) ends(t *testing.T, why string) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(10 * time.Second):
		t.Fatalf("attends on: %s", why)
	}
	if len(a.taken) > 0 {
		t.Errorf("took %d more", len(a.taken))
	}
}

// readText begins to read, and returns when that waits.
func readText(t *testing.T, s *noteSocket, n int) <-chan string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, n)
		n, err := io.ReadFull(s, b)
		if err != nil {
			got <- fmt.Sprintf("%q, %v", b[:n], err)
			return
		}
		got <- string(b)
	}()
	until(t, "nobody reads", func() bool {
		s.turn.Lock()
		defer s.turn.Unlock()
		return s.idle
	})
	return got
}

func reads(t *testing.T, got <-chan string, want string) {
	t.Helper()
	select {
	case text := <-got:
		if text != want {
			t.Errorf("read %q, want %q", text, want)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("read nothing, want %q", want)
	}
}

func TestWhoAttendsTakesNotes(t *testing.T) {
	noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
		got := readText(t, s, len(note(0)))
		a := attend(t, s)
		for i := range 10 {
			io.WriteString(peer, note(i))
			a.takes(t, i, i+1)
		}
		io.WriteString(peer, note(10)+note(11)+note(12)) // together
		a.takes(t, 10, 13)
		time.Sleep(2 * attendBlocked) // who blocked parks
		io.WriteString(peer, note(13))
		a.takes(t, 13, 14)
		if again := attend(t, s); len(again.taken) > 0 {
			t.Error("two attend")
		} else {
			again.ends(t, "somebody attends already")
		}
		a.over.Store(true)
		io.WriteString(peer, note(14))
		a.takes(t, 14, 15)
		a.ends(t, "it is over")
		io.WriteString(peer, note(15)) // and now the reader
		reads(t, got, note(15))
	})
}

// leaves has somebody attend who takes note i and must leave the rest.
func leaves(t *testing.T, s *noteSocket, peer net.Conn, i int, rest string) {
	t.Helper()
	got := readText(t, s, len(rest))
	a := attend(t, s)
	io.WriteString(peer, note(i)+rest)
	a.takes(t, i, i+1)
	a.ends(t, "there is something it does not want")
	reads(t, got, rest)
}

func TestWhoAttendsLeavesTheRestToTheReader(t *testing.T) {
	for name, rest := range map[string]string{
		"a PONG":                  "+PONG\r\n",
		"another kind":            ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n",
		"not only texts":          ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n:1\r\n",
		"half a note":             note(1)[:20],
		"all but the last byte":   note(1)[:len(note(1))-1],
		"no Redis at all":         "HTTP/1.1 400 Bad Request\r\n",
		"a note that is too long": fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5000\r\n%5000d\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) { leaves(t, s, peer, 0, rest) })
		})
	}
}

func TestNobodyAttendsWhoCouldTearAMessage(t *testing.T) {
	noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
		attend(t, s).ends(t, "the reader has not come yet")
		got := readText(t, s, len(note(0)))
		io.WriteString(peer, note(0)[:10])
		until(t, "nobody reads", func() bool {
			s.turn.Lock()
			defer s.turn.Unlock()
			return s.idle && !s.frames.between()
		})
		attend(t, s).ends(t, "the reader has half a message")
		io.WriteString(peer, note(0)[10:])
		reads(t, got, note(0))
	})
}

func TestAttendIsInterrupted(t *testing.T) {
	noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
		got := readText(t, s, len(note(0)))
		for range 100 { // just after it asked
			var over bool
			a := &attendance{done: make(chan struct{})}
			go func() {
				defer close(a.done)
				s.attend(func() bool {
					now := over
					over = true
					s.interrupt()
					return now
				}, func([]string) bool { return true })
			}()
			a.ends(t, "it was interrupted just after it asked")
		}
		for i := range 3000 {
			a := &attendance{done: make(chan struct{})}
			go func() {
				defer close(a.done)
				s.attend(a.over.Load, func([]string) bool { return true })
			}()
			if i%3 > 0 { // else at any moment
				until(t, "attend does not wait", s.asleep.Load)
			}
			if i%3 > 1 {
				s.interrupt() // for nothing
			}
			a.over.Store(true)
			s.interrupt()
			a.ends(t, "it was interrupted")
		}
		io.WriteString(peer, note(0))
		reads(t, got, note(0))
	})
}

func TestAttendEndsWithTheConnection(t *testing.T) {
	for name, end := range map[string]func(s, peer net.Conn){
		"closed":             func(s, _ net.Conn) { s.Close() },
		"closed by the peer": func(_, peer net.Conn) { peer.Close() },
		"reset":              func(_, peer net.Conn) { peer.(*net.TCPConn).SetLinger(0); peer.Close() },
		"late":               func(s, _ net.Conn) { s.SetDeadline(time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
				read := reading(t, s)
				until(t, "nobody reads", func() bool {
					s.turn.Lock()
					defer s.turn.Unlock()
					return s.idle
				})
				a := attend(t, s)
				end(s, peer)
				a.ends(t, "the connection has ended")
				if err := ended(t, read); err == nil {
					t.Error("the reader reads on")
				}
				attend(t, s).ends(t, "there is no connection")
				s.interrupt()
			})
		})
	}
}

// TestAttendingLosesNothing has a reader and those who attend take turns while
// notes come in pieces and in heaps: each must be seen once, and in order.
func TestAttendingLosesNothing(t *testing.T) {
	const notes = 20_000
	noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
		var mu sync.Mutex
		next, attended := 0, 0
		see := func(text string, by *int) {
			mu.Lock()
			defer mu.Unlock()
			if i, err := strconv.Atoi(text); err != nil || i != next {
				t.Errorf("%q comes after %d", text, next-1)
				next = i
			}
			next++
			if by != nil {
				*by++
			}
		}
		all := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return next >= notes
		}
		var running sync.WaitGroup
		running.Go(func() { // as rueidis
			r := bufio.NewReaderSize(s, 512)
			for line := 0; ; line++ {
				text, err := r.ReadString('\n')
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if line%7 == 6 {
					see(text[:len(text)-2], nil)
				}
			}
		})
		running.Go(func() {
			draw := rand.New(rand.NewPCG(1, 2))
			for !all() {
				rounds := draw.IntN(20)
				s.attend(func() bool { rounds--; return rounds < 0 || all() }, func(m []string) bool {
					if draw.IntN(100) == 0 {
						time.Sleep(50 * time.Microsecond) // long enough for a reader who should not read
					}
					see(m[2], &attended)
					return true
				})
				if draw.IntN(4) == 0 {
					time.Sleep(time.Duration(draw.IntN(100)) * time.Microsecond)
				}
			}
		})
		stop := make(chan struct{})
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					s.interrupt()
				}
			}
		})
		draw := rand.New(rand.NewPCG(3, 4))
		text := ""
		for i := range notes {
			if text += note(i); draw.IntN(10) > 0 {
				continue
			}
			cut := len(text)
			if draw.IntN(3) == 0 {
				cut = draw.IntN(len(text))
			}
			io.WriteString(peer, text[:cut])
			if text = text[cut:]; draw.IntN(20) == 0 {
				time.Sleep(time.Duration(draw.IntN(300)) * time.Microsecond)
			}
		}
		io.WriteString(peer, text)
		until(t, "notes are missing", all)
		close(stop)
		s.Close()
		running.Wait()
		t.Logf("%d of %d while attended", attended, next)
		if attended == 0 || attended == next {
			t.Error("they did not take turns")
		}
	})
}

// A reader that was about to be woken when somebody began to attend must not read
// what that one looks at.
func TestTheReaderKeepsAwayWhileSomebodyAttends(t *testing.T) {
	noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
		got := readText(t, s, len(note(0)))
		var over bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.attend(func() bool { return over }, func([]string) bool {
				s.parking.add(s.fd) // wakes it
				time.Sleep(20 * time.Millisecond)
				s.parking.drop(s.fd)
				over = true
				return true
			})
		}()
		until(t, "attend does not wait", s.asleep.Load)
		io.WriteString(peer, note(0))
		(&attendance{done: done}).ends(t, "it is over")
		select {
		case text := <-got:
			t.Errorf("the reader has it too: %q", text)
		default:
		}
		io.WriteString(peer, note(1))
		reads(t, got, note(1))
	})
}

// A reader that was woken before must be woken for what is left to it: an epoll
// that nobody asks remembers what it has reported.
func TestTheReaderIsWokenAgainForWhatIsLeft(t *testing.T) {
	for name, rest := range map[string]string{"a PONG": "+PONG\r\n", "half a note": note(2)[:20]} {
		t.Run(name, func(t *testing.T) {
			noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
				got := readText(t, s, len(note(0)))
				io.WriteString(peer, note(0))
				reads(t, got, note(0))
				leaves(t, s, peer, 1, rest)
			})
		})
	}
}

// Close waits for the reader, the reader for its turn, and who may not attend must
// not wait for Close while it has that.
func TestCloseWhileSomebodyMayNotAttend(t *testing.T) {
	noteSockets(t, func(t *testing.T, s *noteSocket, peer *net.TCPConn) {
		var all [3]chan struct{}
		s.turn.Lock()
		for i, f := range []func(){
			func() { s.attend(func() bool { return true }, func([]string) bool { return true }) },
			func() { s.Read(make([]byte, 10)) },
			func() { s.Close() },
		} {
			all[i] = make(chan struct{})
			go func() {
				defer close(all[i])
				f()
			}()
			time.Sleep(20 * time.Millisecond) // each behind the one before
		}
		s.turn.Unlock()
		for i, name := range []string{"attend", "Read", "Close"} {
			select {
			case <-all[i]:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s hangs", name)
			}
		}
	})
}

// TestTheEndIsSeenWhoeverReads ends connections while reader and attendees take
// turns.
func TestTheEndIsSeenWhoeverReads(t *testing.T) {
	for round := range 1500 {
		ours, peer := tcpPair(t)
		s, err := newNoteSocket(ours)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			io.Copy(io.Discard, s)
		}()
		var over atomic.Bool
		var attending sync.WaitGroup
		for range 3 {
			attending.Go(func() {
				for !over.Load() {
					s.attend(over.Load, func([]string) bool { return true })
					if rand.IntN(10) == 0 {
						time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
					}
				}
			})
		}
		for i := range 10 {
			io.WriteString(peer, note(i))
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
		peer.Close()
		select {
		case <-read:
		case <-time.After(5 * time.Second):
			t.Errorf("round %d: nobody saw it", round)
		}
		over.Store(true)
		s.interrupt()
		s.Close()
		attending.Wait()
		if t.Failed() {
			return
		}
	}
}

package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/internal/mailbox"
	"leasehold/lab/servers"
)

// notifications runs Watch for a client until the test ends.
func notifications(t *testing.T, e *Engine) <-chan engine.Claim {
	t.Helper()
	all, began := make(chan engine.Claim, 100), make(chan struct{})
	begins := sync.OnceFunc(func() { close(began) })
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Watch(ctx, func(c engine.Claim) {
			switch {
			case c.ID != (engine.ID{}):
				all <- c
			default:
				begins()
			}
		})
	}()
	<-began
	t.Cleanup(func() { end(); <-ended })
	return all
}

// bells is how many doorbells wait in the server. They do not SLEEP: all SLEEPs of MariaDB
// share a mutex, and a KILL of one may keep that, and with it all connections that begin or
// end, for two seconds.
func bells(t testing.TB, db *sql.DB) int {
	t.Helper()
	return get[int](t, db, `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE = 'User lock'`)
}

// rungOnly has a client wait for rings alone, before it watches: its doorbell looks by itself,
// or is given up, after an hour.
func rungOnly(t *testing.T, e *Engine, url string) {
	t.Helper()
	config, _, _, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	patient, err := newBell(config, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	e.client.bell.close()
	e.client.bell.db, e.client.bell.number, e.client.bell.waits = patient.db, patient.number, patient.waits
}

func notified(t *testing.T, from <-chan engine.Claim) engine.Claim {
	t.Helper()
	select {
	case c := <-from:
		return c
	case <-time.After(30 * time.Second):
		t.Fatal("nobody was notified")
		return engine.Claim{}
	}
}

// A call that lets a claim hold rings for it: a Leave, a Revoke and a Join, also after the
// procedures were made anew, and when the doorbell's connection ended in between. The
// claim needs no renewal.
func TestARingNotifiesWhoCameToHold(t *testing.T) {
	t.Parallel()
	url := database(t)
	a, b, db := open(t, url), open(t, url), connect(t, url)
	rungOnly(t, b, url)
	heard := notifications(t, b)
	for _, how := range []struct {
		what string
		ends func(t *testing.T, held engine.Claim) engine.Claim // and what is in line in its place
	}{
		{"Leave", func(t *testing.T, held engine.Claim) engine.Claim { leave(t, a, held); return held }},
		{"Revoke", func(t *testing.T, held engine.Claim) engine.Claim {
			if err := a.Revoke(within(t), held.Name, held.Ticket, true); err != nil {
				t.Fatal(err)
			}
			return held
		}},
		{"Join in place of another", func(t *testing.T, held engine.Claim) engine.Claim {
			r := exclusive("a")
			r.Replaces = held.ID
			return testutil.Joins(t, a, r, engine.Waiting)
		}},
		{"a Leave after the schema was run", func(t *testing.T, held engine.Claim) engine.Claim {
			editions.Run(t, url)
			leave(t, a, held)
			return held
		}},
		{"a Leave after the doorbell was ended", func(t *testing.T, held engine.Claim) engine.Claim {
			do(t, db, `KILL `+get[string](t, db, `SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE = 'User lock'`))
			until(t, "there is no doorbell again", func() bool { return bells(t, db) == 1 })
			leave(t, a, held)
			return held
		}},
		{"a Leave after the doorbell's second connection was ended", func(t *testing.T, held engine.Claim) engine.Claim {
			keeper := func() string {
				return get[string](t, db, literal(`SELECT COALESCE(IS_USED_LOCK(CONCAT('leasehold wait ', LEFT(SHA2(?, 224), 40))), '')`, b.client.bell.id[:]))
			}
			former := keeper()
			do(t, db, `KILL `+former)
			until(t, "there is no doorbell again", func() bool { now := keeper(); return now != "" && now != former && bells(t, db) == 1 })
			leave(t, a, held)
			return held
		}},
	} {
		if !t.Run(how.what, func(t *testing.T) {
			held := testutil.Joins(t, a, testutil.Lasting("a", time.Minute), engine.Held)
			next := testutil.Joins(t, b, testutil.Lasting("a", time.Minute), engine.Waiting)
			until(t, "there is no doorbell", func() bool { return bells(t, db) == 1 })
			last := how.ends(t, held)
			for c := notified(t, heard); c.State != engine.Held || c.ID != next.ID || c.Ticket != next.Ticket || c.Name != "a"; c = notified(t, heard) {
				// A claim that came to wait beside a look of the doorbell polls.
				if c.State != engine.Waiting {
					t.Fatalf("notified of %+v, want %+v", c, next)
				}
			}
			leave(t, b, next)
			leave(t, a, last)
		}) {
			return // the next would wait for what is still held
		}
	}
}

// A ring ends nothing but a doorbell, and a call whose ring is refused has done what it should.
func TestARingEndsNothingElse(t *testing.T) {
	t.Parallel()
	url := database(t)
	db := connect(t, url)
	waiting := open(t, url)
	notifications(t, waiting)
	stranger := open(t, editions.Stranger(t, url)) // may end no statement of others
	held := testutil.Joins(t, stranger, testutil.Lasting("a", time.Minute), engine.Held)
	next := testutil.Joins(t, waiting, testutil.Lasting("a", time.Minute), engine.Waiting)
	until(t, "there is no doorbell", func() bool { return bells(t, db) == 1 })
	leave(t, stranger, held)
	if n := bells(t, db); n != 1 {
		t.Errorf("%d doorbells after a ring of another user's, want the one", n)
	}
	if c := renew(t, waiting, next, time.Minute); c.State != engine.Held {
		t.Errorf("it polls, and is %v", c.State)
	}

	// Somebody's statements, on as many connections, while doorbells that are not there are rung.
	quiet := open(t, url+"?no-doorbell")
	notifications(t, quiet)
	first := testutil.Joins(t, waiting, testutil.Lasting("b", time.Minute), engine.Held)
	testutil.Joins(t, quiet, testutil.Lasting("b", time.Minute), engine.Waiting)
	slept, enough := make(chan error, 3), make(chan struct{})
	for range cap(slept) {
		go func() {
			var err error
			for ended := false; err == nil && !ended; {
				var interrupted int
				err = db.QueryRow(`SELECT SLEEP(2)`).Scan(&interrupted)
				if err == nil && interrupted != 0 {
					err = io.ErrUnexpectedEOF
				}
				select {
				case <-enough:
					ended = true
				default:
				}
			}
			slept <- err
		}()
	}
	until(t, "they do not sleep", func() bool {
		return bells(t, db) == 1 && get[int](t, db, `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE = 'User sleep'`) == cap(slept)
	})
	leave(t, waiting, first)
	close(enough)
	for range cap(slept) {
		if err := <-slept; err != nil {
			t.Errorf("a ring ended another's statement: %v", err)
		}
	}
}

// A poll of a claim that needs nothing locks nothing: it is answered while somebody else has
// the row. With a shared lock, two polls that then extend their claims would wait for each other.
func TestAPollLocksNothing(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url+"?innodb_lock_wait_timeout=1"), connect(t, url)
	testutil.Joins(t, e, lasting("a"), engine.Held)
	next := testutil.Joins(t, e, lasting("a"), engine.Waiting)
	lock(t, begin(t, db), "a")
	if c := renew(t, e, next, time.Second); c.State != engine.Waiting {
		t.Errorf("it is %v", c.State)
	}
}

// A call that has committed is answered, whatever becomes of its ring. Were it made again, a
// Leave would say that the claim was lost.
func TestACallThatCommittedIsAnsweredWhateverItsRingDoes(t *testing.T) {
	t.Parallel()
	for what, ring := range map[string]string{
		"it is gone for a moment":             "", // as in MySQL, when the schema is run
		"it fails":                            `SIGNAL SQLSTATE '45000'`,
		"it does not end":                     `DO SLEEP(60)`,
		"somebody ends its statement":         `KILL QUERY CONNECTION_ID()`,
		"somebody ends the connection":        `BEGIN KILL CONNECTION CONNECTION_ID(); DO SLEEP(60); END`, // not answered before it is ended
		"it fails for the caller's own error": `SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213`,           // for which a call is made again
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			a, b, db := open(t, url), open(t, url), connect(t, url)
			first, second := testutil.Joins(t, a, lasting("a"), engine.Held), testutil.Joins(t, b, lasting("a"), engine.Waiting)
			third, fourth := testutil.Joins(t, b, lasting("a"), engine.Waiting), testutil.Joins(t, b, lasting("a"), engine.Waiting)
			do(t, db, `DROP PROCEDURE @ring`)
			if ring != "" {
				do(t, db, `CREATE PROCEDURE @ring(bells VARBINARY(1200)) SQL SECURITY INVOKER `+ring)
			}
			if state := leave(t, a, first); state != engine.Held {
				t.Errorf("a Leave of what was held says %v", state)
			}
			if err := a.Revoke(within(t), "a", second.Ticket, true); err != nil {
				t.Errorf("Revoke: %v", err)
			}
			replacing := lasting("a")
			replacing.Replaces = third.ID
			testutil.Joins(t, b, replacing, engine.Waiting)
			if c := renew(t, b, fourth, time.Minute); c.State != engine.Held {
				t.Errorf("the last is %v", c.State)
			}
		})
	}
}

// A ring that is refused, or that nobody hears, keeps no other from its own.
func TestARingInVainKeepsNoOtherFromItsOwn(t *testing.T) {
	t.Parallel()
	url := database(t)
	holder, deaf, hears, db := open(t, url), open(t, url+"?no-doorbell"), open(t, url), connect(t, url)
	rungOnly(t, hears, url)
	heard := notifications(t, hears)
	held := testutil.Joins(t, holder, testutil.Lasting("a", time.Minute), engine.Held)
	one, two := lasting("a"), lasting("a")
	one.Permits, two.Permits = 1, 1 // of many: they come to hold together
	testutil.Joins(t, deaf, one, engine.Waiting)
	next := testutil.Joins(t, hears, two, engine.Waiting)
	until(t, "there is no doorbell", func() bool { return bells(t, db) == 1 })
	leave(t, holder, held)
	for c := notified(t, heard); c.State != engine.Held || c.ID != next.ID; c = notified(t, heard) {
		if c.State != engine.Waiting {
			t.Fatalf("notified of %+v, want %+v", c, next)
		}
	}
}

// A server that is full is asked seldom for a doorbell's connection: what room it has is for calls.
func TestAFullServerIsAskedSeldomForADoorbell(t *testing.T) {
	if full, other := pauseAfter(&mysql.MySQLError{Number: 1040}), pauseAfter(io.EOF); full < 30*other {
		t.Errorf("a full server is asked after %v, another after %v", full, other)
	}
}

// A client with one caller takes four connections at most, however busy it is: one for its
// calls, another beside a renewal, and two for its doorbell.
func TestAClientWithOneCallerTakesFourConnections(t *testing.T) {
	t.Parallel()
	url := database(t)
	db := connect(t, url)
	clients, rounds := 8, 60
	if testing.Short() {
		rounds = 15
	}
	ctx := within(t)
	var all sync.WaitGroup
	for range clients {
		locks, err := leasehold.New(open(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		all.Go(func() {
			for range rounds {
				l, err := locks.Lock(ctx, "a")
				if err == nil {
					err = l.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	// Those that are idle stay for a minute. The server may end late what was closed.
	n := 0
	for range 20 {
		if n = get[int](t, db, `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()`); n <= 4*clients {
			t.Logf("%d clients take %d connections", clients, n)
			return
		}
		time.Sleep(time.Second)
	}
	t.Errorf("%d clients take %d connections", clients, n)
}

// statement is the packet of one, the first that is sent in a row.
func statement(text string) []byte {
	const query = 3
	return append([]byte{byte(len(text) + 1), 0, 0, 0, query}, text...)
}

// Behind what gives its clients connection numbers of its own there is no doorbell: its
// connections to the server may be other clients' a moment later.
func TestBehindAProxyThereIsNoBell(t *testing.T) {
	t.Parallel()
	url := database(t)
	addr := servers.Impostor(t, "tcp", func(c net.Conn) {
		defer c.Close()
		s, err := net.Dial("tcp", shared.Server.Addr)
		if err != nil {
			return
		}
		defer s.Close()
		first := make([]byte, 4096)
		n, err := s.Read(first)
		if err != nil {
			return
		}
		number := first[5+bytes.IndexByte(first[5:n], 0)+1:]
		binary.LittleEndian.PutUint32(number, binary.LittleEndian.Uint32(number)+1000)
		if _, err := c.Write(first[:n]); err != nil {
			return
		}
		go func() {
			// ProxySQL answers this text by itself.
			asked, said := statement(`SELECT CONNECTION_ID()`), statement(fmt.Sprint(`SELECT `, binary.LittleEndian.Uint32(number)))
			sent := make([]byte, 1<<16)
			for {
				n, err := c.Read(sent)
				if err != nil {
					return
				}
				if _, err := s.Write(bytes.ReplaceAll(sent[:n], asked, said)); err != nil {
					return
				}
			}
		}()
		io.Copy(c, s)
	})
	e, db := open(t, strings.Replace(url, shared.Server.Addr, addr, 1)), connect(t, url)
	if err := e.client.bell.serve(within(t)); err != errNoBell {
		t.Errorf("a doorbell behind a proxy: %v", err)
	}
	if n := get[int](t, db, `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND IS_USED_LOCK(CONCAT('leasehold ', LEFT(SHA2(UNHEX(?), 224), 40))) = ID`, hex.EncodeToString(e.client.id[:])); n != 0 {
		t.Error("the connection behind the proxy has the doorbell's lock")
	}
}

// A claim whose Join was answered after a look began that did not know it polls at once:
// the ring for it may have been that look. Others wait for the ring.
func TestAClaimThatALookMissedPolls(t *testing.T) {
	b := &bell{mail: mailbox.New(), wanted: make(chan struct{}, 1), waiting: map[engine.ID]waiter{}}
	heard := make(chan engine.Claim, 10)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.mail.Deliver(ctx, nil, func(c engine.Claim) { heard <- c })
	}()
	b.look()
	claim := func(name string) engine.Claim {
		return engine.Claim{Name: name, ID: engine.NewID(), Ticket: 7, State: engine.Waiting, TTL: time.Minute}
	}
	known, missed := claim("known"), claim("missed")
	before := b.begun()
	b.learned(known, 0, before)
	b.look()
	b.learned(missed, 0, before)
	b.learned(known, 0, before) // it was looked at
	if c := notified(t, heard); c.ID != missed.ID || c.State != engine.Waiting {
		t.Errorf("notified of %+v, want that %+v polls", c, missed)
	}
	end()
	<-ended
	if len(heard) != 0 {
		t.Errorf("and of %+v", <-heard)
	}
}

// What a look of the doorbell asks fits into a statement: of those who wait, those who are next.
func TestALookFitsIntoAPacket(t *testing.T) {
	b := &bell{mail: mailbox.New(), wanted: make(chan struct{}, 1), waiting: map[engine.ID]waiter{}, packet: leastPacket - leastPacket/2}
	for i := range 20 {
		c := engine.Claim{Name: fmt.Sprintf("%0*d", engine.MaxName, i), ID: engine.NewID(), State: engine.Waiting, TTL: time.Minute}
		b.learned(c, i, b.begun())
	}
	items, asked := b.look()
	if len(asked) == 0 || 2*len(items) > b.packet {
		t.Fatalf("a look at %d claims has %d digits, and %d fit", len(asked), 2*len(items), b.packet)
	}
	for i, c := range asked {
		if c.ahead != i {
			t.Errorf("number %d of a look has %d before it", i, c.ahead)
		}
	}
}

// A client that relies on a doorbell polls seldom, until a poll finds what a ring should have told.
func TestABellIsReliedOnWhileItRings(t *testing.T) {
	b := &bell{mail: mailbox.New(), wanted: make(chan struct{}, 1), waiting: map[engine.ID]waiter{}}
	c := engine.Claim{Name: "a", ID: engine.NewID(), Ticket: 7, State: engine.Waiting, TTL: time.Minute}
	relies := func() bool {
		c.State = engine.Waiting
		b.learned(c, 0, b.begun())
		return b.relies()
	}
	if relies() {
		t.Error("before any ring it relies on the doorbell")
	}
	_, asked := b.look()
	if err := b.found(asked, "0 7 "); err != nil {
		t.Fatal(err)
	}
	if !relies() {
		t.Error("after a ring it does not")
	}
	c.State = engine.Held
	b.learned(c, 0, b.begun())
	if relies() {
		t.Error("after a ring that was lost it does")
	}
	if err := b.found(asked, "1 7 "); err == nil {
		t.Error("an answer about nobody is believed")
	}
}

package mysqllock

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/internal/mailbox"
)

const (
	// bellTime is how long a doorbell waits in one statement. The server does not notice
	// before that a client has died, and a client closes a doorbell that it has not needed for
	// as long.
	bellTime = 10 * time.Second

	// bellVain is how many rings in a row may mean nothing.
	bellVain = 10

	// bellKept is how many waits that nobody ended pass until the keeper is used: each use is
	// a statement of a client that only waits.
	bellKept = 3

	// bellPause is the time between two attempts to have one, and bellFull that time where the
	// server takes no more connections: what room there is, is for calls.
	bellPause, bellFull = time.Second, time.Minute
)

// bell is the doorbell of a client: a connection that waits in the server while claims of
// this client wait in queues, for a lock that a second connection has and that nobody gives
// up (GET_LOCK). Whoever lets one of them hold ends that statement after the
// commit: see bell and ring in schema.sql. The ring says nothing but "look".
//
// A ring may be lost: nobody rings for who is on another server or connects as another
// user. So every waiting claim polls, and a doorbell is relied on, which means fewer polls, as
// long as none of them finds what a ring should have told.
type bell struct {
	db     *sql.DB        // of two connections, the doorbell's own
	number *atomic.Uint32 // by which that was greeted
	id     [12]byte
	call   string
	mail   *mailbox.Box
	wanted chan struct{} // capacity 1: something waits
	waits  time.Duration // bellTime, but in tests
	packet int           // how many digits of a look fit into a statement; 0: any number

	mu      sync.Mutex
	waiting map[engine.ID]waiter
	looks   int  // how many have begun
	open    bool // somebody looks
	relied  bool
}

// waiter is a claim that waits, as it was last answered.
type waiter struct {
	name  string
	ahead int       // how many wait before it
	until time.Time // by then it was renewed, or nobody wants it; later than its deadline, since nothing is trusted by it
}

// newBell is a doorbell that connects as these settings say, and waits for so long in one
// statement. What else it needs is set before it runs.
func newBell(config *mysql.Config, waits time.Duration) (*bell, error) {
	own := config.Clone()
	own.ReadTimeout = waits + greetBound // else a server that vanished is waited for
	number := new(atomic.Uint32)
	own.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &greeting{Conn: c, number: number}, err
	}
	connector, err := mysql.NewConnector(own)
	if err != nil {
		return nil, err
	}
	b := &bell{db: sql.OpenDB(greeted{connector, config.Timeout, config.Addr, nil}), number: number, wanted: make(chan struct{}, 1), waits: waits, waiting: map[engine.ID]waiter{}}
	b.db.SetMaxOpenConns(2)
	return b, nil
}

// greeting is a connection whose first packet is looked at: the server's or a proxy's.
type greeting struct {
	net.Conn
	number *atomic.Uint32
	seen   []byte // of it
	done   bool
}

// Read implements [net.Conn]. The packet has 3 bytes of length, its number, that of the
// protocol, the server's version up to a 0, and the number of the connection.
func (g *greeting) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if g.done {
		return n, err
	}
	g.seen = append(g.seen, p[:n]...)
	if len(g.seen) > 5 {
		if _, rest, ok := bytes.Cut(g.seen[5:], []byte{0}); ok && len(rest) >= 4 {
			g.number.Store(binary.LittleEndian.Uint32(rest))
			g.seen, g.done = nil, true
		}
	}
	return n, err
}

// begun is how many looks have begun, for learned.
func (b *bell) begun() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looks
}

// learned takes in the answer to a call that began after so many looks. A claim that came
// to wait since then may have come to hold since then as well, and who rang for it was
// answered by a look without it. So it polls, at once.
func (b *bell) learned(c engine.Claim, ahead, looks int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.waiting[c.ID]
	switch {
	case c.State != engine.Waiting:
		if known && c.State == engine.Held {
			b.relied = false // a poll found it
		}
		delete(b.waiting, c.ID)
		return
	case !known && b.open && b.looks != looks:
		b.mail.Post(engine.Claim{Name: c.Name, ID: c.ID, Ticket: c.Ticket, State: engine.Waiting})
	}
	b.waiting[c.ID] = waiter{c.Name, ahead, time.Now().Add(c.TTL)}
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// relies is whether claims may poll seldom: the last that came to hold was rung for.
func (b *bell) relies() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.relied && b.open
}

// left: nobody wants that claim.
func (b *bell) left(id engine.ID) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// run has a doorbell for as long as something waits.
func (b *bell) run(ctx context.Context) {
	for {
		select {
		case <-b.wanted:
		case <-ctx.Done():
			return
		}
		err := b.serve(ctx)
		b.mu.Lock()
		b.open = false
		b.mu.Unlock()
		if errors.Is(err, errNoBell) {
			return
		}
		if err != nil {
			select {
			case <-time.After(pauseAfter(err)):
			case <-ctx.Done():
				return
			}
			select {
			case b.wanted <- struct{}{}:
			default:
			}
		}
	}
}

// pauseAfter is how long there is no doorbell after one that ended so.
func pauseAfter(err error) time.Duration {
	if (source{}).Full(err) {
		return bellFull
	}
	return bellPause
}

// close ends the doorbell's connection.
func (b *bell) close() error {
	if b == nil {
		return nil
	}
	return b.db.Close()
}

// errNoBell: something between this client and the server has connections of its own. What
// rings would end might be another client's statement.
var errNoBell = errors.New("connections do not lead to one connection of the server's each")

var errKeeper = errors.New("the connection that keeps the doorbell waiting has ended")

// errFormer: what the server does for a client that was cut off ends late.
var errFormer = errors.New("a former connection of this doorbell has not ended")

// serve is one connection of the doorbell's, and the one that keeps what it waits for.
func (b *bell) serve(ctx context.Context) error {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer discard(conn) // it keeps a lock, and is rung: nobody else may have it
	var number uint64
	var mine sql.NullInt64
	// In the text, so that what stands between sees it and keeps the connection for this
	// client. It comes last: a proxy is left before any connection has the lock.
	// (That of CONNECTION_ID() alone ProxySQL answers by itself, with the number of its greeting.)
	if err := conn.QueryRowContext(ctx, `SELECT CONNECTION_ID() + 0`).Scan(&number); err != nil {
		return err
	}
	if uint32(number) != b.number.Load() { // which has 32 bits
		return errNoBell
	}
	if err := conn.QueryRowContext(ctx, literal(`SELECT GET_LOCK(CONCAT('leasehold ', LEFT(SHA2(?, 224), 40)), 0)`, b.id[:])).Scan(&mine); err != nil {
		return err
	}
	if mine.Int64 != 1 {
		return errFormer
	}
	keeper, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer keeper.Close()
	defer discard(keeper)
	if err := keeper.QueryRowContext(ctx, literal(`SELECT GET_LOCK(CONCAT('leasehold wait ', LEFT(SHA2(?, 224), 40)), 0)`, b.id[:])).Scan(&mine); err != nil {
		return err
	}
	if mine.Int64 != 1 {
		return errFormer
	}
	for unused, vain, waits := false, 0, 0; ; {
		items, asked := b.look()
		if len(asked) == 0 && unused {
			return nil
		}
		unused = len(asked) == 0
		var text string
		began := time.Now()
		err := conn.QueryRowContext(ctx, literal(b.call, b.id[:], items, int(b.waits.Seconds()))).Scan(&text)
		undisturbed := err == nil && text == "" && time.Since(began) > b.waits/2
		if undisturbed {
			waits++
		}
		switch {
		case err != nil && code(err) != 1317:
			return err
		case text == "-":
			return errNoBell
		case text != "":
			vain = 0
			if err := b.found(asked, text); err != nil {
				return err
			}
		// Without its keeper a doorbell has what it waits for, and no wait lasts. A keeper
		// that is silent for too long ends.
		case err == nil && (!undisturbed || waits%bellKept == 0) && keeper.PingContext(ctx) != nil:
			return errKeeper
		case undisturbed:
			vain = 0
		default: // rung: where the ring ended this call (1317), or for a claim that was learned of meanwhile, the next look finds it
			if vain++; vain > bellVain {
				return errors.New("this server ends what waits")
			}
		}
	}
}

// numbered is what stands for a claim in a look: its place there is its number.
type numbered struct {
	engine.ID
	waiter
}

// look begins one: what it is to look at, up to a batch of those who are next, and what fits
// into a statement.
func (b *bell) look() (items []byte, all []numbered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	b.open = true
	now := time.Now()
	maps.DeleteFunc(b.waiting, func(_ engine.ID, w waiter) bool { return now.After(w.until) })
	if len(b.waiting) == 0 {
		select {
		case <-b.wanted: // by what waits no more
		default:
		}
	}
	for id, w := range b.waiting {
		all = append(all, numbered{id, w})
	}
	slices.SortFunc(all, func(x, y numbered) int { return cmp.Compare(x.ahead, y.ahead) })
	all = all[:min(len(all), sqllock.Chunk)]
	for i, w := range all {
		if size := 2 * (len(items) + 2 + len(w.name) + len(w.ID)); b.packet > 0 && size > b.packet { // the others poll
			return items, all[:i]
		}
		items = append(binary.BigEndian.AppendUint16(items, uint16(len(w.name))), w.name...)
		items = append(items, w.ID[:]...)
	}
	return items, all
}

// found takes in the answer to a look: the numbers of claims that hold, and their tickets.
func (b *bell) found(asked []numbered, text string) error {
	fields := strings.Fields(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; len(fields) > 1; fields = fields[2:] {
		i, err := strconv.Atoi(fields[0])
		if err != nil || i < 0 || i >= len(asked) {
			return fmt.Errorf("%w: %q", errAnswer, text)
		}
		ticket, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %q", errAnswer, text)
		}
		if c := asked[i]; b.waiting[c.ID] != (waiter{}) { // else a poll was faster
			delete(b.waiting, c.ID)
			b.relied = true
			b.mail.Post(engine.Claim{Name: c.name, ID: c.ID, Ticket: ticket, State: engine.Held})
		}
	}
	return nil
}

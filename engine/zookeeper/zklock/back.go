package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"leasehold/engine"
)

// Servers that went back to an older copy of their data have never heard of the last
// transactions that their clients saw. They refuse those clients, as a server refuses
// who has seen more than it: by closing the connection. A server that lags does the same,
// for a moment. What tells the two apart is the number of a transaction that is committed
// now: it is higher than all before it, unless some were lost.
//
// The session is over then. Its nodes may be in the copy, with ones that were left since:
// they end with the session, which nobody goes on with. The library is told that it has
// expired, and begins a new one, which has seen nothing.

var errBack = errors.New("the servers went back to an older copy of their data")

// notifyBack says once that the servers went back.
func (l *link) notifyBack() (back error) {
	l.set(func() { back, l.back = l.back, nil })
	return back
}

// committed is the number of the last transaction of an ensemble: of one that it is
// made to commit, by a session that is opened and closed for that.
func (l *link) committed(server string, until time.Time) (zxid int64, err error) {
	if least := time.Now().Add(firstRound); until.Before(least) {
		until = least
	}
	ctx, cancel := context.WithDeadline(l.greets, until)
	defer cancel()
	c, _, err := brief(ctx, l.dial, server, 4*time.Second)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	const xid, sync = 1, 9
	var p packet
	p.int32(xid).int32(sync).string([]byte("/")) // its answer is from behind all that is committed
	if _, err := c.Write(p.framed()); err != nil {
		return 0, err
	}
	answer, err := unframed(c, 16, maxGreeting)
	if err != nil {
		return 0, err
	}
	end(c)
	if int32(binary.BigEndian.Uint32(answer[12:])) != 0 {
		return 0, errors.New("no transaction")
	}
	return int64(binary.BigEndian.Uint64(answer[4:])), nil
}

// brief opens a session of its own, for what is asked beside the library, and says how
// long the server keeps it. Closing the connection does not end it: see end.
func brief(ctx context.Context, dial dialer, server string, session time.Duration) (net.Conn, time.Duration, error) {
	c, err := dial(ctx, "tcp", server)
	if err != nil {
		return nil, 0, err
	}
	until, _ := ctx.Deadline()
	_ = c.SetDeadline(until)
	var p packet
	p.int32(0).int64(0).int32(int32(session.Milliseconds())).int64(0).string(make([]byte, 16)) // a new session
	_, err = c.Write(p.framed())
	var greeting []byte
	if err == nil {
		greeting, err = unframed(c, greetingLen-4, maxGreeting)
	}
	if err == nil && binary.BigEndian.Uint64(greeting[8:]) == 0 {
		err = errors.New("no session")
	}
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, time.Duration(int32(binary.BigEndian.Uint32(greeting[4:]))) * time.Millisecond, nil
}

// end ends a brief session; else it times out.
func end(c net.Conn) {
	const xid, end = 2, -11
	var p packet
	p.int32(xid).int32(end)
	if _, err := c.Write(p.framed()); err == nil {
		_, _ = unframed(c, 16, maxGreeting)
	}
}

// allowed is how long the servers keep sessions: at least, and at most.
func allowed(ctx context.Context, dial dialer, server string) (least, most time.Duration, err error) {
	for ask, got := range map[time.Duration]*time.Duration{time.Millisecond: &least, 2 * engine.MaxTTL: &most} {
		c, granted, err := brief(ctx, dial, server, ask)
		if err != nil {
			return 0, 0, err
		}
		end(c)
		c.Close()
		*got = granted
	}
	return least, most, nil
}

// expired is the answer of a server that does not know a session.
func expired() []byte {
	var p packet
	p.int32(0).int32(0).int64(0).string(make([]byte, 16))
	return p.framed()
}

// packet is one of ZooKeeper's, without its length.
type packet []byte

func (p *packet) int32(v int32) *packet {
	*p = binary.BigEndian.AppendUint32(*p, uint32(v))
	return p
}

func (p *packet) int64(v int64) *packet {
	*p = binary.BigEndian.AppendUint64(*p, uint64(v))
	return p
}

func (p *packet) string(s []byte) *packet {
	p.int32(int32(len(s)))
	*p = append(*p, s...)
	return p
}

func (p *packet) framed() []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(*p))), *p...)
}

// unframed reads a packet of a length between two.
func unframed(r io.Reader, least, most uint32) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < least || n > most {
		return nil, errors.New("not ZooKeeper")
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

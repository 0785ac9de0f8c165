package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"
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
	c, err := l.dial(ctx, "tcp", server)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var p packet
	p.int32(0).int64(0).int32(int32((4 * time.Second).Milliseconds())).int64(0).string(make([]byte, 16)) // a new session
	if _, err := c.Write(p.framed()); err != nil {
		return 0, err
	}
	if greeting, err := unframed(c, greetingLen-4, maxGreeting); err != nil {
		return 0, err
	} else if binary.BigEndian.Uint64(greeting[8:]) == 0 {
		return 0, errors.New("no session")
	}
	const xid, sync, end = 1, 9, -11
	p = nil
	p.int32(xid).int32(sync).string([]byte("/")) // its answer is from behind all that is committed
	if _, err := c.Write(p.framed()); err != nil {
		return 0, err
	}
	answer, err := unframed(c, 16, maxGreeting)
	if err != nil {
		return 0, err
	}
	p = nil
	p.int32(xid + 1).int32(end)
	if _, err := c.Write(p.framed()); err == nil {
		_, _ = unframed(c, 16, maxGreeting) // else the session times out
	}
	if int32(binary.BigEndian.Uint32(answer[12:])) != 0 {
		return 0, errors.New("no transaction")
	}
	return int64(binary.BigEndian.Uint64(answer[4:])), nil
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

package liveness

import (
	"encoding/binary"
	"strings"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
)

// peer is another client as this one has it open. Under Liveness.peers.
type peer struct {
	life          disk.File
	notifications notifyConn
	dials         bool // notifications is open
}

const clientSize = 13 // characters of a client's name: see queuestore.NewClient

func validClient(s string) bool {
	return len(s) == clientSize && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// peer finds or opens one. The caller has v.peers.
func (v *Liveness) peer(client string) (p *peer, cached bool, err error) {
	if p := v.peers.m[client]; p != nil {
		return p, true, nil
	}
	f, err := v.clients.Open(client)
	if err != nil {
		return nil, false, err
	}
	if len(v.peers.m) >= v.most.Peers {
		for other := range v.peers.m { // any: the order of a map is random enough
			v.dropPeer(other)
			break
		}
	}
	p = &peer{life: f}
	v.peers.m[client] = p
	return p, false, nil
}

func (v *Liveness) dropPeer(client string) {
	p := v.peers.m[client]
	if p == nil {
		return
	}
	delete(v.peers.m, client)
	p.life.Close()
	if p.dials {
		p.notifications.close()
	}
}

// Notify delivers a notification. It never blocks. Each peer has a socket of its own here, because what
// waits unread counts against its sender's socket: with a single one, a
// stopped receiver would silence it for all others.
//
// When it is full, for either reason, messages are waiting to be read there.
// So: raise the flag in the receiver's file, then try once more. If that fails
// too, messages were waiting after the flag was raised, and the receiver looks
// at the flag whenever it has read all of them (see overflow).
func (v *Liveness) Notify(client string, c *engine.Claim) {
	if !validClient(client) {
		return
	}
	v.peers.Lock()
	defer v.peers.Unlock()
	p, _, err := v.peer(client)
	if err != nil {
		return
	}
	if !p.dials {
		if p.notifications, err = dialNotifications(v.clients, client); err != nil {
			return
		}
		p.dials = true
	}
	v.peers.buf = appendNotification(v.peers.buf[:0], c)
	full, err := p.notifications.send(v.peers.buf)
	if full {
		if err = p.life.WriteAt([]byte{1}, 0); err == nil {
			_, err = p.notifications.send(v.peers.buf)
		}
	}
	if err != nil {
		v.dropPeer(client)
	}
}

// overflow reports whether notifications were lost since it was last asked, and
// forgets it. The caller then looks at everything, which covers every notification
// whose sender raised the flag before now.
func (l *life) overflow() bool {
	var b [1]byte
	if n, err := l.file.ReadAt(b[:], 0); err != nil || n == 0 || b[0] == 0 {
		return false
	}
	return l.file.WriteAt([]byte{0}, 0) == nil
}

const (
	notifyContended = 1 << iota
	notificationRevoked
)

const notificationHead = 1 + 1 + 16 + 8 + 4 + 4

// appendNotification encodes what Watch reports. A claim in state Unknown asks the
// receiving engine to look who is ahead of its own claims in that line.
func appendNotification(b []byte, c *engine.Claim) []byte {
	var flags byte
	if c.Contended {
		flags |= notifyContended
	}
	if c.Revoked {
		flags |= notificationRevoked
	}
	b = append(b, byte(c.State), flags)
	b = append(b, c.ID[:]...)
	b = binary.LittleEndian.AppendUint64(b, c.Ticket)
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Permits))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Limit))
	return append(b, c.Name...)
}

func parseNotification(b []byte) (c engine.Claim, ok bool) {
	if len(b) < notificationHead || b[0] > byte(engine.Gone) || engine.CheckName(string(b[notificationHead:])) != nil {
		return c, false
	}
	c.State = engine.State(b[0])
	c.Contended, c.Revoked = b[1]&notifyContended != 0, b[1]&notificationRevoked != 0
	copy(c.ID[:], b[2:])
	c.Ticket = binary.LittleEndian.Uint64(b[18:])
	c.Permits = int32(binary.LittleEndian.Uint32(b[26:]))
	c.Limit = int32(binary.LittleEndian.Uint32(b[30:]))
	c.Name = string(b[notificationHead:])
	return c, true
}

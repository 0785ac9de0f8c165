package queuelock

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/engine/redis/internal/redisconn"
)

// A name's one key is
//
//	prefix {xx} : name
//
// with xx = two hexadecimal digits from the name. A prefix has no braces, so
// Cluster hashes xx alone, and braces in the name change nothing; the name
// stands at the end as it is, so distinct names never share a key. 256 tags
// spread over every Cluster of sensible size, and let one script call renew
// many leases there, which may not cross slots.
func (e *Engine) key(name string) string {
	return e.prefix + "{" + hex.EncodeToString([]byte{bucket(name)}) + "}:" + name
}

// bucket is FNV-1a, folded to eight bits. It is part of the layout: clients of
// all versions must agree on it.
func bucket(name string) byte {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return byte(h ^ h>>8 ^ h>>16 ^ h>>24)
}

// slot tells apart names whose keys may be on different servers: one script call may not
// touch two slots of a Cluster.
func (e *Engine) slot(name string) byte {
	if e.wire.Cluster() {
		return bucket(name)
	}
	return 0
}

// nameOf returns the name in a key of this layout.
func (e *Engine) nameOf(key string) (string, bool) {
	_, name, _ := strings.Cut(key, "}:") // a prefix has no braces
	return name, key == e.key(name)
}

// said is the length of what say() in line.lua packs.
const said = 33

// decode reads what say() packed.
func decode(b string) (c engine.Claim, ok bool) {
	if len(b) < said {
		return c, false
	}
	ok = read(b, &c)
	c.TTL = micros(u64(b[17:]))
	c.PollAfter = micros(u64(b[25:]))
	return c, ok
}

// read takes in the first 17 bytes of that.
func read(b string, c *engine.Claim) (ok bool) {
	c.State = engine.State(b[0] & 3)
	c.Contended, c.Revoked = b[0]&4 != 0, b[0]&8 != 0
	c.Ticket = u64(b[1:])
	c.Permits, c.Limit = int32(u32(b[9:])), int32(u32(b[13:]))
	return b[0] < 16 && c.State != engine.Unknown
}

// noted is the length of a message before the key: an ID, and what say() packs
// less its two times.
const recorded = 16 + said - 16

// notification reads a message.
func (e *Engine) notification(m string) (c engine.Claim, ok bool) {
	if len(m) < recorded {
		return c, false
	}
	copy(c.ID[:], m)
	if c.Name, ok = e.nameOf(m[recorded:]); !ok {
		return c, false
	}
	return c, read(m[16:], &c)
}

// parseQueue reads the fields of a queue's hash: see line.lua.
func parseQueue(fields map[string]string) (l queue.Queue, err error) {
	m, ok := fields["m"]
	if !ok {
		if len(fields) > 0 {
			err = redisconn.ErrForeign
		}
		return l, err
	}
	switch {
	case m == "":
	case m[0] == 'E' && len(m) == 17:
		return l, nil
	case m[0] == 'S' && len(m) > 66:
		l.Last, l.Limit = u64(m[1:]), int32(u32(m[46:]))
		err := addPlace(&l, m[50:66], u64(m[33:]), u64(m[17:]), u64(m[25:]), u32(m[42:]), m[41], m[66:])
		return l, err
	case (m[0] == 'F' || m[0] == 'Q') && len(m) == 106:
		l.Last, l.Limit = u64(m[1:]), int32(u32(m[53:]))
		untold, front := u32(m[49:]), m[65:81]
		for id, record := range fields {
			if id == "m" {
				continue
			}
			if len(record) < 62 {
				return l, redisconn.ErrForeign
			}
			flags := record[40]
			if m[0] == 'Q' {
				// m says which claim holds, and whether it was notified that others wait.
				if flags &^= 1 | 8; id == front {
					if flags |= 1; untold == 0 {
						flags |= 8
					}
				}
			}
			if err := addPlace(&l, id, u64(record[32:]), u64(record[45:]), u64(record[53:]), u32(record[41:]), flags, record[61:]); err != nil {
				return l, err
			}
		}
		// The links say the same as the tickets.
		slices.SortFunc(l.Places, func(a, b queue.Place) int {
			if a.Ticket < b.Ticket {
				return -1
			}
			return 1
		})
		return l, nil
	}
	return l, redisconn.ErrForeign
}

func addPlace(l *queue.Queue, id string, ticket, deadline, asked uint64, permits uint32, flags byte, rest string) error {
	if len(id) != 16 || len(rest) < 1+int(rest[0]) {
		return redisconn.ErrForeign
	}
	p := queue.Place{
		Ticket: ticket, Deadline: micros(deadline), Asked: micros(asked), Permits: int32(permits),
		Held: flags&1 != 0, Detached: flags&2 != 0, Revoked: flags&4 != 0, Notified: flags&8 != 0,
		Client: rest[1 : 1+int(rest[0])], Owner: rest[1+int(rest[0]):],
	}
	copy(p.ID[:], id)
	l.Places = append(l.Places, p)
	return nil
}

// micros is so many microseconds, or a hundred years: more would be no time.
func micros(n uint64) time.Duration {
	return time.Duration(min(n, 100*365*24*3600*1e6)) * time.Microsecond
}

func u32(s string) uint32 { return binary.BigEndian.Uint32([]byte(s[:4])) }
func u64(s string) uint64 { return binary.BigEndian.Uint64([]byte(s[:8])) }

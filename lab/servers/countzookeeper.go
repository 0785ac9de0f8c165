package servers

import (
	"encoding/binary"
	"fmt"
)

// packetCounter reads what ZooKeeper clients send: packets with their length before
// them, each with its number and its operation, but for the first, which asks for a
// session.
type packetCounter struct {
	head []byte // length, number and operation of this packet, as far as they came
	left int    // bytes still to come of it after those
	asks bool   // the first has passed
}

const packetHead = 12

// operations are the names that ZooKeeper's own documentation has for them.
var operations = map[uint32]string{
	1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 11: "ping", 12: "getChildren", 14: "multi", 15: "create2",
	19: "createContainer", 100: "auth", 101: "setWatches", 1<<32 - 11: "closeSession",
}

func (k *packetCounter) feed(b []byte, found func(string)) {
	for len(b) > 0 {
		if len(k.head) < packetHead {
			n := min(packetHead-len(k.head), len(b))
			k.head, b = append(k.head, b[:n]...), b[n:]
			if len(k.head) < packetHead {
				return
			}
			k.left = 4 + int(binary.BigEndian.Uint32(k.head)) - packetHead
		}
		n := min(k.left, len(b))
		k.left, b = k.left-n, b[n:]
		if k.left > 0 {
			return
		}
		name, op := "session", binary.BigEndian.Uint32(k.head[8:])
		if k.asks {
			var known bool
			if name, known = operations[op]; !known {
				name = fmt.Sprint("operation ", int32(op))
			}
		}
		k.asks, k.head = true, k.head[:0]
		found(name)
	}
}

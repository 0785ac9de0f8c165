package records

import (
	"errors"
	"time"
)

// ErrDisagree: clients that live at the same time do not agree since when this
// machine runs, or what time it is.
var ErrDisagree = errors.New("clients that are alive do not agree on the machine's boot or clock")

// isCurrent reports whether a queue is of this boot, and makes it so. Of another
// one it is empty: its deadlines are of another clock, and all its clients have
// ended with the machine.
//
// The identity of the boot alone must not decide that. Containers mask it, and two
// that share a directory would each take the other's claims for those of a machine
// that is gone: two would hold. So it decides only where it is known on both sides;
// where it is not, the clock does, which does not go back within a boot. And
// whatever these say, a client that lives has not ended: the kernel keeps its lock,
// which no container can mask.
func (c *Records) isCurrent(s *state) (bool, error) {
	mine, none := c.boot(), [16]byte{}
	if (s.boot == mine || s.boot == none || mine == none) && s.touched <= c.clock()+maxSkew {
		if s.boot == none {
			s.boot = mine
		}
		return true, nil
	}
	for i := range s.queue.Places {
		if p := &s.queue.Places[i]; !p.Detached && !c.ended(p.Client) {
			return false, ErrDisagree
		}
	}
	return false, nil
}

// maxSkew is by how much the clock may seem to go back from one processor to
// another. It is far less.
const maxSkew = time.Second

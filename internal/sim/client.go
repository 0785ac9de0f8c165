package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// client is one process: a machine, and what package leasehold puts around it. It turns
// outputs into calls, answers into inputs, and tells the machine that time passes.
type client struct {
	w       *world
	number  int
	machine *claims.Machine // nil: the process is dead
	config  claims.Config
	clock   clock
	life    int
	users   []*user
	habits  *rand.Rand // of its callers
	net     *rand.Rand // of its messages

	wakes    time.Duration // when the keeper wakes, in virtual time; never: it does not
	oversees uint64        // counts its plans, so that an old one does nothing
	late     bool          // timers were stopped, and run late

	stopped bool
	stops   int // counts them, so that the end of an old one does nothing
	resumed time.Duration
	inbox   []func()

	there, back int           // cuts of each way
	arrives     time.Duration // Sessions: when its last request arrives
	subscribed  bool
	troubles    int           // what is wrong for it just now
	disturbed   time.Duration // when anything went wrong for it last

	drawn    uint64 // IDs
	sessions int
	owed     []engine.Claim // Sessions: Leaves that did not arrive
	seen     uint64         // see checkJoined
}

const never time.Duration = math.MaxInt64

// latest is the longest that the keeper sleeps: its timers stop while its machine is
// suspended, so it looks at the clock at least so often.
const latest = time.Second

func newClient(w *world, number, index int) *client {
	c := &client{w: w, number: number, habits: w.chances(1, number), net: w.chances(2, number), wakes: never}
	r := w.chances(3, number)
	c.clock = clock{then: epoch + upTo(r, 100*time.Hour), ppm: w.drift(r)}
	c.config = claims.Config{NewID: c.newID, Jitter: func(d time.Duration) time.Duration { return upTo(c.net, d) },
		Detached: w.Policy != Sessions, Unordered: w.Policy == NoOrder}
	if w.Habits.Mixed {
		if r.IntN(4) == 0 {
			c.config.IdleTimeout = 2 * time.Second
		}
		c.config.NoLocalHandoff = r.IntN(8) == 0
		c.config.FailFast = r.IntN(8) == 0
	}
	for i := range w.Callers {
		c.users = append(c.users, &user{client: c, own: index*w.Callers + i})
	}
	c.begin()
	return c
}

// drift is a rate: half of all clocks are as wrong as they may be.
func (w *world) drift(r *rand.Rand) int64 {
	switch most := w.Drift; r.IntN(4) {
	case 0:
		return most
	case 1:
		return -most
	default:
		return r.Int64N(2*most+1) - most
	}
}

// begin begins a life of the client.
func (c *client) begin() {
	c.life++
	c.machine = claims.New(c.config)
	c.w.addresses[process{c, c.life}.address()] = process{c, c.life}
	c.disturb()
	c.subscribe()
	c.beat()
	for _, u := range c.users {
		u.begin()
	}
}

func (c *client) String() string { return fmt.Sprintf("client %d", c.number) }

func (p process) address() string { return fmt.Sprintf("%d.%d", p.client.number, p.life) }

func (c *client) newID() (id engine.ID) {
	c.drawn++
	binary.BigEndian.PutUint64(id[:], uint64(c.number)+1)
	binary.BigEndian.PutUint64(id[8:], c.drawn)
	return id
}

// now is what the client's clock reads.
func (c *client) now() time.Duration { return c.clock.read(c.w.now) }

func (c *client) disturb() { c.disturbed = c.w.now }

// do has something happen in a life of the client: later, if the process is stopped.
func (c *client) do(life int, f func()) {
	switch {
	case c.life != life || c.machine == nil:
	case c.stopped:
		c.inbox = append(c.inbox, f)
	default:
		f()
	}
}

// later has something happen in this life of the client, after d.
func (c *client) later(d time.Duration, f func()) {
	life := c.life
	c.w.at(c.w.now+d, func() { c.do(life, f) })
}

package queuelock

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	ask := e.joining(&r)
	var a redisconn.Answer
	if e.replicas == 0 {
		a = e.run(ctx, e.scripts.join, ask)
	} else {
		a = e.wire.CallSynced(ctx, e.replicas, e.scripts.join, []redisconn.Call{ask})[0]
	}
	c, err := joined(&r, ask.Keys[0], a)
	if err != nil {
		return engine.Claim{}, err
	}
	c.Name, c.ID = r.Name, r.ID
	return c, nil
}

// joining is the call that joins.
func (e *Engine) joining(r *engine.Request) redisconn.Call {
	args := []string{e.packed(r), strconv.FormatInt(r.WaitTTL.Microseconds(), 10)}
	switch {
	case r.NoWait:
		args = append(args, "n")
	case r.Replaces != (engine.ID{}):
		args = append(args, string(r.Replaces[:]))
	}
	return redisconn.Call{Keys: []string{e.key(r.Name)}, Args: args}
}

// packed is the part of a claim's stored form that does not depend on the
// server: see join.lua.
func (e *Engine) packed(r *engine.Request) string {
	flags := byte(1) // held, if nobody is in the queue
	if r.Detached {
		flags |= 2
	}
	b := append(make([]byte, 0, 128), flags)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Permits))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Limit))
	b = append(b, r.ID[:]...)
	b = append(b, byte(len(e.channel)))
	b = append(b, e.channel...)
	return string(r.Owner.AppendText(b))
}

// joined reads what join.lua answers: usually a ticket of who holds, minus a ticket of
// who waits behind others.
func joined(r *engine.Request, key string, a redisconn.Answer) (engine.Claim, error) {
	m, err := a.ToMessage()
	if err != nil {
		return engine.Claim{}, redisconn.Explain(err, key)
	}
	if m.IsInt64() {
		ticket, err := m.AsInt64()
		c := engine.Claim{Ticket: uint64(ticket), Permits: r.Permits, Limit: r.Limit, State: engine.Held, TTL: r.WaitTTL.Truncate(time.Microsecond)}
		if ticket < 0 {
			c.Ticket, c.State = uint64(-ticket), engine.Waiting
		}
		return c, err
	}
	b, err := m.ToString()
	if err != nil {
		return engine.Claim{}, fmt.Errorf("redis: unexpected answer (is the server Redis or Valkey?): %w", err)
	}
	if c, ok := decode(b); ok {
		return c, nil
	}
	switch {
	case b == "X":
		return engine.Claim{}, redisconn.Foreign(key)
	case b == "T":
		return engine.Claim{}, engine.Refuse("the next ticket would be above %d: the clock of this Redis is wrong, or the key %q has a wrong ticket; "+
			"set the clock, or delete that key when nobody holds the name", uint64(engine.MaxTicket), key)
	case len(b) == 5 && b[0] == 'L':
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: int32(u32(b[1:])), Want: r.Limit}
	case len(b) == 5 && b[0] == 'C':
		return engine.Claim{}, engine.Refuse("the queue has %d claims already, the most: let fewer callers wait for one name", u32(b[1:]))
	}
	return engine.Claim{}, fmt.Errorf("redis: unexpected answer (is the server Redis or Valkey?): %d bytes", len(b))
}

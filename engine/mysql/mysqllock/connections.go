package mysqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold/engine/internal/sqllock"
)

// source is a pool as package sqllock takes connections from it.
type source struct{ *sql.DB }

var _ sqllock.Source[*sql.Conn] = source{}

func (s source) Take(ctx context.Context) (*sql.Conn, error) { return s.Conn(ctx) }
func (source) Full(err error) bool {
	n := code(err)
	return n == 1040 || n == 1203 || n == 1226
}

// Sound implements [sqllock.Source]: a procedure's transaction has ended where its handler
// ran. One that an operator stops (KILL QUERY) runs it in MariaDB and not in MySQL: its
// transaction would stay open, and with it the row locked, until the connection ends.
func (source) Sound(c *sql.Conn, err error) bool {
	if err == nil || undone(err) && code(err) != 0 {
		return true
	}
	discard(c)
	return false
}

// Stands implements [sqllock.Source]: the driver looks whether the server has ended it,
// without asking, as for what it takes from its pool.
func (source) Stands(ctx context.Context, c *sql.Conn, _ time.Duration) bool {
	return c.Raw(func(conn any) error {
		if r, ok := conn.(driver.SessionResetter); ok {
			return r.ResetSession(ctx)
		}
		return nil
	}) == nil
}

// greetBound is how long a server may take until a connection to it stands.
const greetBound = 5 * time.Second

// greeted makes connections, each within a bound: the driver's is one of the dialling
// alone, and what answers there may never say a word.
type greeted struct {
	driver.Connector
	bound time.Duration
	addr  string
	made  chan<- struct{} // capacity 1: a connection was made
}

func (g greeted) Connect(ctx context.Context) (driver.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, g.bound)
	defer cancel()
	c, err := g.Connector.Connect(bounded)
	var of net.Error
	switch {
	case err == nil:
		select {
		case g.made <- struct{}{}:
		default: // the last one is not looked at yet
		}
	case ctx.Err() != nil || code(err) != 0 || errors.Is(err, mysql.ErrNoTLS):
	case errors.As(err, new(*net.OpError)): // nothing answered
	case bounded.Err() != nil, errors.As(err, &of) && of.Timeout():
		err = fmt.Errorf("the server at %s said nothing for %v: it is no MySQL, or hangs: %w", g.addr, g.bound, err)
	default:
		err = fmt.Errorf("the server at %s does not speak as MySQL does, or hung up: check the address: %w", g.addr, err)
	}
	return c, err
}

// Give implements [sqllock.Source].
func (source) Give(c *sql.Conn) { _ = c.Close() } // the pool ends one that is broken

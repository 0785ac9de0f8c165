package pglock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"leasehold/engine"
)

const (
	// Where nothing is heard: how long the first who waits should wait before it
	// looks again, and how many times that all others.
	pollFirst  = 100 * time.Millisecond
	pollOthers = 10

	// quiet is how long a listener believes a connection of which it hears nothing.
	quiet = 15 * time.Second

	// answerBound is how long a server may take to answer a listener.
	answerBound = 5 * time.Second
)

// Watch implements [engine.Engine]. It listens on a connection of its own, for as long
// as that lasts, and hands messages on from the goroutine that reads them.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	if !e.Listens() {
		changed(engine.Claim{})
		<-ctx.Done()
		return ctx.Err()
	}
	return named(e.client.listen(ctx, changed))
}

// listener is a connection of this client's own that hears its channel. It is made as
// the pool makes its own, and never taken from there: it may be the last one while the
// server takes no more, and renewals need it.
func (c *client) listener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	config := c.pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	if config.AfterConnect != nil {
		err = config.AfterConnect(ctx, conn)
	}
	if err == nil {
		_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{c.channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		bye(conn)
		return nil, err
	}
	return conn, nil
}

// bye ends a connection, and waits for that no longer than a server may take.
func bye(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), answerBound)
	defer cancel()
	_ = conn.Close(ctx) // nothing is owed on it
}

// listen listens on one connection for as long as it lasts.
func (c *client) listen(ctx context.Context, changed func(engine.Claim)) error {
	conn, err := c.listener(ctx)
	if err != nil {
		return err
	}
	defer bye(conn)
	changed(engine.Claim{})
	for {
		notification, err := receive(ctx, conn, quiet)
		if err != nil {
			return err
		}
		if notification == "" {
			continue
		}
		if notified, err := parseNotification(notification); err == nil { // whoever else may notify may say anything
			changed(notified)
		}
	}
}

// hear waits for one message. After a while of silence it asks the server whether the
// connection still stands, since one that was cut says nothing.
func receive(ctx context.Context, conn *pgx.Conn, silence time.Duration) (string, error) {
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	n, err := conn.WaitForNotification(wait)
	switch {
	case err == nil:
		return n.Payload, nil
	case ctx.Err() != nil || wait.Err() == nil:
		return "", err
	}
	ask, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	return "", conn.Ping(ask)
}

// deaf finds out, behind a pooler, whether this client hears anything: one that gives
// each transaction another connection takes a LISTEN, and the notification comes to a
// connection that belongs to nobody. So the message is sent by another connection
// while the listener is idle, and is expected within a second.
func (c *client) deaf(ctx context.Context) bool {
	conn, err := c.listener(ctx)
	if err != nil {
		return true
	}
	defer bye(conn)
	if _, err := c.pool.Exec(ctx, "SELECT pg_notify($1::text, '')", pgx.QueryExecModeExec, c.channel); err != nil {
		return true
	}
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = conn.WaitForNotification(wait)
	return err != nil
}

var errNotification = errors.New("not a notification of leasehold")

// parseNotification reads what notification in schema.sql wrote.
func parseNotification(text string) (c engine.Claim, err error) {
	var id, name string
	var contended, revoked int
	if _, err := fmt.Sscan(text, &c.State, &contended, &revoked, &c.Ticket, &c.Permits, &c.Limit, &id, &name); err != nil {
		return c, errNotification
	}
	c.Contended, c.Revoked = contended == 1, revoked == 1
	if c.ID, err = engine.ParseID(id); err != nil {
		return c, errNotification
	}
	b, err := hex.DecodeString(name)
	if err != nil || engine.CheckName(string(b)) != nil || c.State < engine.Waiting || c.State > engine.Gone {
		return c, errNotification
	}
	c.Name = string(b)
	return c, nil
}

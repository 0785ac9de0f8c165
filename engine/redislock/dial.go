package redislock

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"
)

// alone makes a client with one shared connection and the same options as the
// engine's own, whose connections go through take first. It reports false where
// there is no such client: the engine's is the caller's, or not of one server.
func (e *server) alone(take func(net.Conn) (net.Conn, error), o func(*rueidis.ClientOption)) (rueidis.Client, bool, error) {
	if e.own == nil || e.client.Mode() != rueidis.ClientModeStandalone {
		return nil, false, nil
	}
	own := *e.own
	own.PipelineMultiplex = -1
	dial := own.DialCtxFn
	if dial == nil {
		dial = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
			if t != nil {
				return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	own.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, addr, d, t)
		if err != nil {
			return nil, err
		}
		return take(c)
	}
	o(&own)
	c, err := rueidis.NewClient(own)
	return c, true, err
}

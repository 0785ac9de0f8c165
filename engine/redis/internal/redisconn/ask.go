package redisconn

import (
	"context"

	"github.com/redis/rueidis"
)

// Ask makes one call of a command that is no script, once, and returns as soon
// as ctx ends.
func (c *Client) Ask(ctx context.Context, verb string, args ...string) rueidis.RedisResult {
	return c.do(ctx, c.redis.B().Arbitrary(verb).Args(args...).Build())
}

// Info is what a single server says of itself. It waits while a server that has
// just started loads its data, for at most ten seconds.
func (c *Client) Info(ctx context.Context) (map[string]string, error) {
	info, err := c.info(ctx, c.redis)
	return info, Explain(err, "")
}

package redisconn

import (
	"context"
	"maps"
	"slices"

	"github.com/redis/rueidis"
)

// Node is one server of a client, to be asked by itself.
type Node struct {
	Addr   string
	client *Client
	redis  rueidis.Client
}

// Nodes are the servers that the client knows: those of a Cluster, or the one that it
// speaks to.
func (c *Client) Nodes() (all []Node) {
	nodes := c.redis.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, Node{addr, c, nodes[addr]})
	}
	return all
}

// Info is what the server says of itself.
func (n Node) Info(ctx context.Context) (map[string]string, error) {
	info, err := n.client.info(ctx, n.redis)
	return info, Explain(err, "")
}

// Ask makes one call of a command without a key.
func (n Node) Ask(ctx context.Context, verb string, args ...string) rueidis.RedisResult {
	return n.client.ask(ctx, n.redis, n.redis.B().Arbitrary(verb).Args(args...).Build())
}

// Question is a command about one key.
type Question struct {
	Verb []string // one word, or two
	Key  string
	Args []string
}

// AskMany asks all of that at once, each question where its key is. It is for what only
// reads.
func (c *Client) AskMany(ctx context.Context, questions []Question) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, 0, len(questions))
	for _, q := range questions {
		cmds = append(cmds, c.redis.B().Arbitrary(q.Verb...).Keys(q.Key).Args(q.Args...).Build())
	}
	answers, err := await(ctx, c, func() []rueidis.RedisResult {
		bounded, cancel := c.bounded() // see ask
		defer cancel()
		redis, _ := c.enter(bounded, c.redis)
		defer c.leave()
		return redis.DoMulti(bounded, cmds...)
	}, nil)
	if err != nil {
		answers = make([]rueidis.RedisResult, len(questions))
		for i := range answers {
			answers[i] = rueidis.NewErrorResult(err)
		}
	}
	return answers
}

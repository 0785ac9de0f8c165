// Package redisfence writes to Redis or Valkey only with a fencing token that is not
// stale. The check and the commands are one script, so no other command comes between.
//
//	marks := redisfence.New(client) // your github.com/redis/rueidis client
//	_, err := marks.Do(ctx, fence.Of(lease), "stock:42", []string{"SET", "stock:42", "5"})
//	if errors.Is(err, fence.ErrStale) {
//		return err // the lease was lost, somebody else was here: nothing was written
//	}
//
// The mark of a key is the highest exclusive token that wrote it. It is in a key beside
// it, in the same slot of a Cluster. Any engine may have granted the lease.
//
// # What it promises
//
// After commands with token t were carried out for a key, none with a lower token are, as
// long as the mark is kept. The mark has no expiry. It is lost like the data: by FLUSHALL,
// by a failover to a replica that missed both, by a crash without appendfsync always.
//
// # What it cannot promise
//
//   - A maxmemory-policy that begins with allkeys may drop the mark and keep the data:
//     then a stale write is admitted. Use noeviction or volatile-*.
//   - Redis takes nothing back: if the second command fails, the first was carried out.
//   - An error of the connection does not say whether the commands were carried out. The
//     client does not send them again.
//   - Delete the mark ([MarkKey]) with the key, and not before the last holder has ended.
//
// The script compares tokens as text, by length and then by digits: scripts count in
// doubles, in which neighbouring tokens are the same number. A user needs, besides the
// commands, +get +set +eval +evalsha and ~leasehold:fence:* .
package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"leasehold"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/fence"
)

//go:embed fence.lua
var script string

// MaxWords is how many words a command may have. Lua passes on at most some 8,000 at once,
// and would fail only after the commands before it were carried out.
const MaxWords = 7000

// Marks are the marks of keys.
type Marks struct {
	client rueidis.Client
	script *rueidis.Lua
}

// New returns the marks in the server of client. The caller still owns client.
func New(client rueidis.Client) *Marks {
	return &Marks{client, rueidis.NewLuaScript(script)}
}

// MarkKey returns the key of the mark of a key. Deleting it forgets the mark.
func MarkKey(key string) string { return redisconn.KeyBeside("leasehold:fence:", key) }

// Do carries out commands, each a name and its arguments, if the pass is admitted at the
// mark of key, and returns their answers. In a Cluster all keys of the commands must be in
// the slot of key. Without commands Do shows the pass, which raises the mark.
//
// Do returns a fence.StaleError, fence.ErrPass, the error of a command, which ends the
// rest, or the error of the client.
func (m *Marks) Do(ctx context.Context, p fence.Pass, key string, commands ...[]string) ([]rueidis.RedisMessage, error) {
	if err := p.Valid(); err != nil {
		return nil, err
	}
	args := []string{p.Token.String(), p.Raises().String()}
	for _, command := range commands {
		if len(command) == 0 || len(command) > MaxWords {
			return nil, fmt.Errorf("redisfence: a command has %d words: it needs 1 to %d; split it", len(command), MaxWords)
		}
		args = append(args, strconv.Itoa(len(command)))
		args = append(args, command...)
	}
	answers, err := m.script.Exec(ctx, m.client, []string{MarkKey(key), key}, args).ToArray()
	if err != nil {
		return nil, fmt.Errorf("redisfence: %w", err)
	}
	if len(answers) == 0 {
		return nil, errors.New("redisfence: the server's answer has no mark: check that it is Redis or Valkey")
	}
	mark, err := answers[0].ToString()
	if err != nil {
		return nil, fmt.Errorf("redisfence: %w", err)
	}
	if mark == "" {
		return answers[1:], nil
	}
	n, err := strconv.ParseUint(mark, 10, 63)
	if err != nil {
		return nil, fmt.Errorf("redisfence: %s does not hold a token: nothing was written; delete the key if no other program uses it", MarkKey(key))
	}
	return nil, &fence.StaleError{Name: p.Name, Token: p.Token, Mark: leasehold.Token(n)}
}

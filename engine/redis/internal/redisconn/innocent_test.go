package redisconn

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"leasehold/engine/internal/testutil"
)

// A call whose deadline passes breaks the connection off that others wait for. They were not
// sent yet, have time, and are made on the next connection.
func TestADeadlineEndsNoOthersCall(t *testing.T) {
	t.Parallel()
	for what, innocent := range map[string]func(context.Context, *Client) error{
		"a script": func(ctx context.Context, c *Client) error {
			a := c.Call(ctx, NewScript("return 1"), Call{})
			return errors.Join(a.Error(), a.Indeterminate)
		},
		"scripts that go out together": func(ctx context.Context, c *Client) error {
			var all error
			for _, a := range c.CallMany(ctx, NewScript("return 1"), []Call{{}, {}}) {
				all = errors.Join(all, a.Error(), a.Indeterminate)
			}
			return all
		},
		"a command":      func(ctx context.Context, c *Client) error { return c.Ask(ctx, "ECHO", "1").Error() },
		"an examination": func(ctx context.Context, c *Client) error { return c.Check(ctx, true) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, _ := dialed(t, nil)
			if err := c.Ask(t.Context(), "PING").Error(); err != nil { // it stands
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var calls sync.WaitGroup
			calls.Go(func() {
				if err := c.Ask(ctx, "BLPOP", "none", "10").Error(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the call with a deadline: %v", err)
				}
			})
			testutil.Until(t, "the call is not under way", func() bool {
				c.lone.mu.Lock()
				defer c.lone.mu.Unlock()
				return c.lone.under > 0
			})
			for range 3 {
				calls.Go(func() {
					if err := innocent(t.Context(), c); err != nil {
						t.Errorf("another call: %v", err)
					}
				})
			}
			calls.Wait()
		})
	}
}

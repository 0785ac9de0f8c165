package redisconn

import (
	"context"
	"fmt"
	"time"

	"leasehold/engine"
)

// openBound is how long Open takes at most, whatever listens there.
const openBound = 5 * time.Second

// Open connects to what a URL names and starts an engine on it, with the options
// that the URL has. The URL may have wire's parameters, those given, and a
// layout, which is this engine's.
func Open[O any, E engine.Engine](
	ctx context.Context, rawURL, name, layout string,
	options func(*Target) (O, error), start func(context.Context, *Client, O) (E, error), params ...string,
) (engine.Engine, error) {
	t, err := ParseURL(rawURL, append(params, "layout")...)
	if err != nil {
		return nil, Named(name, fmt.Errorf("%w: %w", engine.ErrURL, err))
	}
	if l := t.Param("layout"); l != "" && l != layout {
		return nil, Named(name, fmt.Errorf("%w: the layout is not %s", engine.ErrURL, layout))
	}
	o, err := options(t)
	if err != nil {
		return nil, Named(name, fmt.Errorf("%w: %w", engine.ErrURL, err))
	}
	if err := ctx.Err(); err != nil { // so nobody is reached, as Examine wants it
		return nil, Named(name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	c, err := Dial(ctx, t)
	if err != nil {
		return nil, Named(name, err)
	}
	e, err := start(ctx, c, o)
	if err != nil {
		c.Close()
		return nil, Named(name, err)
	}
	return e, nil
}

// Named is an error of an engine with that name, or nil.
func Named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// program is the browser as Debian calls it.
const program = "chromium"

// browser starts one that keeps nothing, and asks nobody on the network for anything. It ends
// when stop is called.
func browser(ctx context.Context) (running context.Context, stop func(), err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is not installed: run `make deps`", program)
	}
	profile, err := os.MkdirTemp("", "lh-browser")
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	allocated, end := chromedp.NewExecAllocator(ctx, options...)
	running, cancel := chromedp.NewContext(allocated)
	stop = func() {
		_ = chromedp.Cancel(running) // it may have ended by itself
		cancel()
		end()
		os.RemoveAll(profile)
	}
	if err := chromedp.Do(running); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", program, err)
	}
	return running, stop, nil
}

// within waits until an expression of the page's script is true.
func within(ctx context.Context, most time.Duration, expression string) error {
	end := time.Now().Add(most)
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) { // a page that is just loaded has nothing yet: such errors pass
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText"))
			return fmt.Errorf("not within %v: %s: %v: %s", most, expression, err, strings.Join(strings.Fields(text), " "))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// command is a command of the browser's protocol whose answer says nothing.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

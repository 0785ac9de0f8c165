package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"leasehold"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
)

// The minute that the picture shows, by the clock, for that is what the page can be asked
// for: the engine is stopped in the middle for longer than the TTL, so leases are lost.
const (
	stopAt = 22 * time.Second
	contAt = 38 * time.Second
	endAt  = time.Minute
	ttl    = 9 * time.Second
)

// The graphs, from the top. Operators such as "or" would take two metrics with the same
// labels for one.
var graphs = []string{
	`{__name__=~"leasehold_engine_up|leasehold_trust_ratio"}`,
	`{__name__=~"leasehold_(held|waiting|lost_total)", reason=~"|expired"}`,
}

// take plays that minute and writes what Prometheus shows.
func take(ctx context.Context, to string) (err error) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return errors.New("chromium is not installed: install Debian's package chromium, which is for this picture alone")
	}
	store, err := servers.StartRedis(nil)
	if err != nil {
		return err
	}
	defer store.Close()
	eng, err := redis.Open(ctx, "redis://"+store.Addr)
	if err != nil {
		return err
	}
	program, err := newCounted(eng, "redis", &leasehold.Options{TTL: ttl, NoLocalHandoff: true})
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	prom, err := servers.StartPrometheus(&servers.PrometheusOptions{Targets: map[string]string{"shop": program.Addr}, Every: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer prom.Close()

	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for i := range 6 {
		workers.Go(func() { work(working, program.Client, "stock/"+strconv.Itoa(i%3), i < 1) })
	}
	begin := time.Now().Truncate(time.Minute).Add(time.Minute)
	for _, step := range []struct {
		at   time.Duration
		then func() error
	}{{stopAt, store.Stop}, {contAt, store.Cont}, {endAt, func() error { return nil }}} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(begin.Add(step.at))):
		}
		if err := step.then(); err != nil {
			return err
		}
	}
	return shoot(ctx, browser, prom.URL(), begin.Add(endAt), to)
}

// work holds name again and again, for some seconds or until it is over or lost.
func work(ctx context.Context, c *leasehold.Client, name string, toTheEnd bool) {
	for ctx.Err() == nil {
		l, err := c.Lock(ctx, name)
		if err != nil {
			continue // the engine does not answer, or it is over
		}
		lasts := 4*time.Second + rand.N(8*time.Second)
		if toTheEnd {
			lasts = time.Hour
		}
		select {
		case <-ctx.Done():
		case <-l.Context().Done():
		case <-time.After(lasts):
		}
		_ = l.Unlock() // a loss is what the picture shows
	}
}

// shoot writes what the expression page shows of each graph until end, one below the
// other: what comes after is a machine that is busy with the browser.
func shoot(ctx context.Context, browser, from string, end time.Time, to string) error {
	dir, err := os.MkdirTemp("", "lh-picture")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	args := url.Values{}
	for i, expr := range graphs {
		g := fmt.Sprintf("g%d.", i)
		args.Set(g+"expr", expr)
		args.Set(g+"tab", "0")
		args.Set(g+"range_input", "1m")
		args.Set(g+"end_input", end.UTC().Format(time.DateTime))
		args.Set(g+"step_input", "1")
	}
	file := filepath.Join(dir, "page.png")
	out, err := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size=900,1650", "--virtual-time-budget=20000", "--screenshot="+file, from+"/graph/?"+args.Encode()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chromium: %w\n%s", err, out)
	}
	return os.Rename(file, to)
}

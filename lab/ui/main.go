package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"leasehold/engine"
)

func main() {
	to := flag.String("write", "", "the folder that the pictures go to")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := take(ctx, *to); err != nil {
		fmt.Fprintln(os.Stderr, "ui:", err)
		os.Exit(1)
	}
}

// pictures are the pages that are taken.
func pictures() []picture {
	return []picture{
		{"ui-overview", "", 1000, 640, `document.querySelectorAll("tbody tr").length === 6 && document.querySelector(".events .lost")`},
		{"ui-name", "name?name=report%2Fnightly", 1000, 860, `document.querySelectorAll(".queue li").length === 3 && document.querySelectorAll(".events li").length >= 4`},
		{"ui-graph", "graph", 1160, 540, `document.querySelectorAll("svg .caller.circle").length === 2`},
	}
}

// picture is a page, and how one sees that it shows all.
type picture struct {
	file, path string
	width      int64
	height     int64
	ready      string
}

// take shows a shop with some trouble, and writes what the browser shows.
func take(ctx context.Context, to string) (err error) {
	if to == "" {
		return errors.New("give -write DIRECTORY")
	}
	browser, stop, err := browser(ctx)
	if err != nil {
		return err
	}
	defer stop()
	s, err := serve(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := chromedp.Do(browser, chromedp.Navigate(s.url)); err != nil { // what happens then is seen
		return err
	}
	if err := trouble(ctx, s); err != nil {
		return err
	}
	for _, p := range pictures() {
		for _, theme := range []string{"light", "dark"} {
			media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
			err := chromedp.Do(browser,
				command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: p.width, Height: p.height, DeviceScaleFactor: 1}),
				command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media}),
				chromedp.Navigate(s.url+p.path))
			if err != nil {
				return err
			}
			if err := within(browser, 20*time.Second, p.ready); err != nil {
				return err
			}
			png, err := chromedp.Run(browser, chromedp.CaptureScreenshot())
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, p.file+"-"+theme+".png"), png, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// trouble is what the pictures show.
func trouble(ctx context.Context, s *site) error {
	var err error
	ask := func(name string, who person, permits, limit int32, ago time.Duration, holds ...engine.Claim) engine.Claim {
		c, e := s.ask(ctx, name, who, permits, limit, ago, holds...)
		err = errors.Join(err, e)
		return c
	}
	const all = engine.Max
	look := func() { // once, so that the history has it
		began := s.store.reads.Load()
		for ctx.Err() == nil && s.store.reads.Load() < began+3 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	first := ask("report/nightly", person{"batch-1", 4021, "last night"}, all, all, 40*time.Minute)
	lost := ask("mail/outbox", person{"mail-2", 811, "sender"}, all, all, time.Hour)
	look()
	ask("report/nightly", person{"batch-2", 3377, "tonight"}, all, all, 9*time.Minute)
	ask("report/nightly", person{"batch-3", 902, "tonight"}, all, all, 4*time.Minute)
	order := ask("order/4711", person{"shop-1", 118, "checkout"}, all, all, 95*time.Second)
	stock := ask("stock/chair", person{"shop-2", 204, "restock"}, all, all, 93*time.Second)
	ask("stock/chair", person{"shop-1", 118, "checkout"}, all, all, 92*time.Second, order)
	ask("order/4711", person{"shop-2", 204, "restock"}, all, all, 90*time.Second, stock)
	ask("order/4711", person{"shop-3", 77, "refund"}, all, all, 31*time.Second)
	for i := range 3 {
		ask("workers", person{fmt.Sprint("worker-", i+1), 5000 + i, "resize"}, 1, 4, time.Duration(20+7*i)*time.Second)
	}
	for i := range 2 {
		ask("catalogue", person{fmt.Sprint("web-", i+1), 60 + i, "reader"}, 1, all, time.Duration(3+i)*time.Second)
	}
	look()
	if err == nil {
		err = errors.Join(s.give(ctx, first), s.Revoke(ctx, "mail/outbox", lost.Ticket, false))
	}
	look()
	if err == nil {
		err = s.give(ctx, lost)
	}
	look()
	ask("report/nightly", person{"batch-4", 15, "tonight"}, all, all, 3*time.Second)
	ask("mail/outbox", person{"mail-3", 12, "sender"}, all, all, 2*time.Second)
	look()
	return errors.Join(err, ctx.Err())
}

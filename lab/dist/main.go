// Command dist writes what people install of one version into a folder: archives with static
// binaries, packages for Debian and for systems with RPM, a container image, checksums, and for
// each binary a list of what is in it.
//
//	make dist VERSION=v0.9.0 OUT=DIR
//
// Two runs for one commit, by the same release of Go, write the same bytes in whatever folder
// the tree is. Every time in them is SOURCE_DATE_EPOCH, or else the time of the commit. The
// binaries are built without cgo, from cmd/leasehold and the modules of this tree that it needs.
//
// It signs nothing: whoever publishes signs SHA256SUMS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// platforms are what a release is built for.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, args []string) error {
	var r release
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "the version: v0.9.0")
	flags.StringVar(&r.out, "out", "", "the `folder` to write, which does not exist yet")
	flags.StringVar(&r.tree, "tree", filepath.Join("..", ".."), "the `folder` with the tree that is built")
	list := flags.String("platforms", platforms, "what to build for; this machine's own is needed for the manual pages, and is built anyway")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version %q: a version is written v0.9.0", r.version)
	}
	if r.out == "" {
		return errors.New("no folder to write: give -out")
	}
	for _, name := range strings.Split(*list, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("-platforms: %q is not a system and an architecture, such as linux/amd64", name)
		}
		r.platforms = append(r.platforms, platform{system, arch})
	}
	if err := r.paths(); err != nil {
		return err
	}
	var err error
	if r.time, err = r.epoch(ctx); err != nil {
		return err
	}
	return r.write(ctx)
}

// release is what is written.
type release struct {
	version   string // v0.9.0
	tree, out string
	platforms []platform
	time      time.Time // of everything in it

	work   string // a folder that goes away
	gowork string // a go.work in it
	module string // the path of the root module
}

type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "_" + p.arch }

// number is the version without its v, as file names and packages have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) paths() (err error) {
	if r.tree, err = filepath.Abs(r.tree); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if _, err := os.Lstat(r.out); err == nil {
		return fmt.Errorf("%s exists: give a folder that does not", r.out)
	}
	return nil
}

// epoch is the time of everything in the release.
func (r *release) epoch(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		c := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
		c.Dir = r.tree
		out, err := c.Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("the time of the commit: %w: set SOURCE_DATE_EPOCH to a time in seconds", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// write builds all of it beside the folder, which appears when it is whole.
func (r *release) write(ctx context.Context) (err error) {
	if err := os.MkdirAll(filepath.Dir(r.out), 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp(filepath.Dir(r.out), ".dist"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	programs, err := r.build(ctx)
	if err != nil {
		return err
	}
	common, err := r.common(ctx, programs)
	if err != nil {
		return err
	}
	done := filepath.Join(r.work, "out")
	if err := os.Mkdir(done, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		if err := r.archive(done, p, common); err != nil {
			return fmt.Errorf("the archive for %s: %w", p, err)
		}
		if err := r.bill(done, p); err != nil {
			return fmt.Errorf("what is in the program for %s: %w", p, err)
		}
		if p.system != "linux" {
			continue
		}
		for _, kind := range []string{"deb", "rpm"} {
			if err := r.pack(done, kind, p, common); err != nil {
				return fmt.Errorf("the %s for %s: %w", kind, p, err)
			}
		}
	}
	if err := r.image(done, programs); err != nil {
		return fmt.Errorf("the container image: %w", err)
	}
	if err := sums(done); err != nil {
		return err
	}
	return os.Rename(done, r.out)
}

package curator

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"leasehold/lab/interop/internal/java"
)

// Current is the release of Curator that locks are shared with.
const Current = "5.9.0"

// DefaultSession is Options.Session where it is zero: Curator's own.
const DefaultSession = 60 * time.Second

// ErrMissing: this machine has no Maven or no JDK, or Maven Central cannot be
// reached and what the build needs was never fetched before.
var ErrMissing = java.ErrMissing

// What all Java programs have.
type (
	Process   = java.Process
	Thread    = java.Thread
	Answer    = java.Answer
	Exception = java.Exception
)

//go:embed java/pom.xml java/src
var files embed.FS

// Program is the Java program, built with one release of Curator.
type Program struct{ java.Program }

// Build compiles the program with a release of Curator, or finds it compiled
// already in the user's cache folder.
//
// Errors: [ErrMissing]; else what Maven says.
func Build(ctx context.Context, release string) (*Program, error) {
	p, err := java.Build(ctx, java.Source{Library: "curator", Files: files}, release)
	if err != nil {
		return nil, err
	}
	return &Program{*p}, nil
}

// Kinds of lock, as commands name them.
const (
	Mutex     = "mutex"     // InterProcessMutex
	Read      = "read"      // of an InterProcessReadWriteLock
	Write     = "write"     // of an InterProcessReadWriteLock
	Semaphore = "semaphore" // InterProcessSemaphoreMutex
	Tutorial  = "tutorial"  // written by hand, in nodes client<10 digits>
	Copied    = "copied"    // the same as people copy it, which lets two hold
)

// Options are the choices of one Curator client.
type Options struct {
	Servers []string      // host:port
	Session time.Duration // 0: DefaultSession; servers grant what lies within their bounds
	JVM     []string      // flags for java
}

// Start starts a process and waits until its client is connected and says that it
// is the release that was built. Close or Kill must follow.
func (b *Program) Start(ctx context.Context, o Options) (*Process, error) {
	if len(o.Servers) == 0 {
		return nil, errors.New("curator: Options.Servers is empty")
	}
	if o.Session == 0 {
		o.Session = DefaultSession
	}
	return b.Program.Start(ctx, o.JVM, strings.Join(o.Servers, ","), strconv.FormatInt(o.Session.Milliseconds(), 10))
}

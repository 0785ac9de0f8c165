package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engine"
	"leasehold/engines"
	"leasehold/internal/boottime"
)

// app is one run of the program: where it reads and writes, and the flags
// that every command has.
type app struct {
	in       *os.File
	out, err io.Writer

	engine  string      // as given: a URL, or @file
	chosen  func() bool // whether --engine was given
	require string
	log     *slog.Logger // --log; nil: sentences for people
	code    int          // of a command that succeeded
	unknown error        // what was asked for help about, if that is no command
}

// main runs the command that args name and returns the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetErr(a.err)
	out := &answer{Writer: a.out}
	root.SetOut(out)
	if err := root.ExecuteContext(ctx); err != nil {
		return a.fail(err)
	}
	if a.unknown != nil {
		return a.fail(a.unknown)
	}
	if out.failed != nil { // the library does not look
		return a.fail(&exitError{codeFailed, out.failed})
	}
	return a.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "leasehold",
		Short: "Hold a name exclusively, shared, or N at a time, across processes and machines",
		Long: `leasehold runs commands under a lock, shows who holds what and who waits, and
asks holders to let go.

"leasehold run" exits with the code of its command, or with one of these:

` + codesHelp + `

The other commands use the same codes. They exit with 1 if the answer is no or
cannot be written.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2 // letters to be changed
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	a.chosen = func() bool { return flags.Changed("engine") }
	flags.StringVar(&a.engine, "engine", "", "engine URL, or @FILE with the URL in it (default $LEASEHOLD_ENGINE, or a directory of this machine)")
	flags.StringVar(&a.require, "require", "", "refuse an engine that does not promise all of these: a list such as cluster,fencing")
	root.AddCommand(
		a.runCommand(), a.electCommand(), a.leaderCommand(), a.lsCommand(), a.showCommand(), a.whyCommand(), a.graphCommand(), a.watchCommand(), a.exporterCommand(), a.uiCommand(), a.revokeCommand(),
		a.acquireCommand(), a.renewCommand(), a.releaseCommand(),
		a.doctorCommand(), a.tortureCommand(), a.demoCommand(), a.demoWorkerCommand(), a.serveCommand(), a.tokenCommand(), a.schemaCommand(), a.manCommand(),
	)
	root.AddCommand(a.demoProcessCommands()...)
	root.AddCommand(a.platformCommands()...)
	a.strict(root)
	return root
}

// engineURL returns the chosen URL. It refuses a password in an argument, which every
// user of the machine could read in the list of processes.
func (a *app) engineURL() (string, error) {
	if a.chosen() {
		return givenURL("--engine", a.engine)
	}
	return readURL(os.Getenv("LEASEHOLD_ENGINE"))
}

// givenURL returns a URL from the arguments, where every user of the machine can read it.
func givenURL(as, given string) (string, error) {
	switch {
	case given == "":
		return "", usageError("%s is empty: give a URL, or leave it out to use LEASEHOLD_ENGINE or a directory of this machine", as)
	case engines.HasSecret(given):
		return "", usageError("%s %s has a password, which every user of this machine could read: put the URL into LEASEHOLD_ENGINE, or into a file and give --engine @file", as, engines.Redact(given))
	}
	return readURL(given)
}

// readURL returns a URL, or the one in the named file.
func readURL(given string) (string, error) {
	path, isFile := strings.CutPrefix(given, "@")
	if !isFile {
		return given, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", usageError("read the engine URL: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxURL+1))
	switch given = strings.TrimSpace(string(text)); {
	case err != nil:
		return "", usageError("read the engine URL: %w", err)
	case given == "" || len(text) > maxURL || strings.ContainsAny(given, "\r\n\x00"):
		return "", usageError("read the engine URL: %s does not have one URL on one line", path)
	}
	return given, nil
}

// maxURL bounds what is read from a file that should hold one URL.
const maxURL = 16 << 10

// open is a client of the chosen engine. TTL and label of o may be set; what is
// required is the flag's.
func (a *app) open(ctx context.Context, o leasehold.Options) (*leasehold.Client, error) {
	rawURL, err := a.engineURL()
	if err != nil {
		return nil, err
	}
	if err := enoughFiles(); err != nil {
		return nil, err
	}
	if o.Require, err = parseRequire(a.require); err != nil {
		return nil, usageError("--require: %w", err)
	}
	eng, err := engines.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	return newClient(eng, o)
}

// leastOpening is what the engine has for opening, however short --wait is: to
// connect takes a moment even where nobody has to wait for the name.
const leastOpening = 2 * time.Second

// openEngine opens the engine of an order. It counts in what the order may wait, and
// the name is asked for once even if nothing is left of that.
func (a *app) openEngine(ctx context.Context, o *order) (engine.Engine, error) {
	began := boottime.Now()
	if o.Wait != 0 || o.Once {
		patience := max(o.Wait, leastOpening)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v, although --wait or --nonblock allows no more", patience))
		defer cancel()
	}
	eng, err := engines.Open(ctx, o.Engine)
	o.waited(boottime.Now() - began)
	return eng, err
}

// waited takes so long from what the order may wait.
func (o *order) waited(long time.Duration) {
	if o.Wait > 0 {
		o.Wait = max(0, o.Wait-long)
		o.Once = o.Wait == 0
	}
}

// newClient takes eng over, also when it fails.
func newClient(eng engine.Engine, o leasehold.Options) (*leasehold.Client, error) {
	locks, err := leasehold.New(eng, &o)
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return locks, nil
}

// inspect runs f with a client, until a signal asks to end.
func (a *app) inspect(cmd *cobra.Command, f func(context.Context, *leasehold.Client) error) error {
	return untilAsked(cmd.Context(), func(ctx context.Context) error {
		locks, err := a.open(ctx, leasehold.Options{})
		if err != nil {
			return err
		}
		defer locks.Close()
		return f(ctx, locks)
	})
}

// say writes one sentence to stderr. What comes from others (names, owners)
// may contain control characters, which must not reach a terminal.
func (a *app) say(format string, args ...any) {
	text := brief(printable(joined.Replace(fmt.Sprintf(format, args...))))
	if a.log != nil {
		a.line(slog.LevelWarn, text)
		return
	}
	fmt.Fprintln(a.err, "leasehold: "+text)
}

// joined makes one line of an error that joins others.
var joined = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")

// answer remembers that something could not be written.
type answer struct {
	io.Writer
	failed error
}

func (w *answer) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil && w.failed == nil {
		w.failed = err
	}
	return n, err
}

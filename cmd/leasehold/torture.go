package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leasehold/engine"
	"leasehold/engines"
	"leasehold/torture"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// tortureFlags are the flags of torture that are not options of the trial itself.
type tortureFlags struct {
	nemeses      []string
	strike, heal string
	breaks       []string
	asJSON       bool
}

// The nemeses by name. Those of usual strike unless --nemesis says otherwise; connections
// hits others who use the server, and the kernel does freeze and packets for root only.
var usual = []string{"kill", "stop", "hog", "wire"}

const noNemesis = "none"

func nemesis(name string) torture.Nemesis {
	switch name {
	case "kill":
		return torture.Kill()
	case "stop":
		return torture.Stop()
	case "hog":
		return torture.Hog()
	case "wire":
		return torture.Wire()
	case "connections":
		return torture.Connections()
	case "freeze":
		return torture.Freeze()
	case "packets":
		return torture.Packets()
	}
	return nil
}

func (a *app) tortureCommand() *cobra.Command {
	var o torture.Options
	var f tortureFlags
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Try locks on an engine under faults, and judge what was seen",
		Long: `Several processes lock names on the engine in every way that there is, while
faults strike. A witness writes down each call, its answer and their times. A
checker judges this history against what the engine declares.

The faults (--nemesis):

    kill         a process is killed; another one takes its place
    stop         a process is stopped (SIGSTOP) for 0.5 to 3 TTLs
    hog          busy processes take the processors
    wire         a proxy cuts, delays and resets connections, and loses answers
    connections  the connections that the server allows are used up, for others too
    freeze       one process is frozen, or all at once, as if their machine paused
    packets      the kernel loses packets of one process, or of all
    none         no fault

By default kill, stop, hog and wire strike. wire needs a URL with host:port, and an
engine that uses no other addresses. freeze and packets need root, and cgroup v2 of
Linux. A fault that cannot come is left out, and torture says why.

--strike and --heal are commands of your own, such as a failover of your server.
--breaks says what they break.

torture uses only names under a random prefix, and ends every claim on them at
the end. An interrupt ends the trial cleanly, with the report of what was seen.
--out gets history.jsonl and report.html, which needs no other file.
"leasehold torture check DIR" judges a history again, without a server.

Exit code 0: no violation was seen. 1: a property is violated. 77: none was seen,
but the trial was too small or its faults too weak to show one.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.require != "" {
				return usageError("--require asks for promises of an engine, and torture judges those that it has: leave it out")
			}
			if o.Clients == 0 || o.Names == 0 || o.For == 0 {
				return usageError("--clients, --names and --for of 0 make no trial: give more")
			}
			var err error
			if o.URL, err = a.engineURL(); err != nil {
				return err
			}
			if o.Nemeses, err = f.choose(); err != nil {
				return err
			}
			return untilAsked(cmd.Context(), func(ctx context.Context) error { return a.torture(ctx, o, f.asJSON) })
		},
	}
	cmd.SuggestionsMinimumDistance = 2 // letters to be changed
	flags := cmd.Flags()
	flags.DurationVar(&o.For, "for", 10*time.Minute, "how long the processes lock")
	flags.IntVar(&o.Clients, "clients", 4, "how many processes there are at once")
	flags.IntVar(&o.Names, "names", 8, "how many names they lock")
	flags.DurationVar(&o.TTL, "ttl", 0, "TTL of every lease (default 2s, or the least of the engine)")
	flags.Uint64Var(&o.Seed, "seed", 0, "of every choice (default: a random one)")
	flags.StringVar(&o.Dir, "out", "", "directory for the history and the report (default leasehold-torture-DATE)")
	flags.StringSliceVar(&f.nemeses, "nemesis", usual, "faults that may strike, a list")
	flags.StringVar(&f.strike, "strike", "", "a shell command that is one more fault")
	flags.StringVar(&f.heal, "heal", "", "a shell command that ends the fault of --strike")
	flags.StringSliceVar(&f.breaks, "breaks", []string{history.Failover}, "what --strike breaks that an engine may rest on: failover, memory, clock")
	flags.BoolVar(&f.asJSON, "json", false, "write the status and the verdict as one JSON object per line")
	cmd.AddCommand(a.tortureCheckCommand())
	return cmd
}

func (a *app) tortureCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Judge the history of a trial again, without a server",
		Long: `Judge the history.jsonl in DIR again, and write its report.html anew. No server
is asked. The exit code is that of torture.`,
		Args: arguments(1, 1, "one directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			if a.chosen() || a.require != "" {
				return usageError("torture check opens no engine: leave --engine and --require out")
			}
			return a.verdict(a.out, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// choose makes the faults of the flags.
func (f *tortureFlags) choose() (all []torture.Nemesis, err error) {
	for _, name := range f.nemeses {
		n := nemesis(name)
		switch {
		case n != nil:
			all = append(all, n)
		case name != noNemesis:
			return nil, usageError("there is no nemesis %q: known are kill, stop, hog, wire, connections, freeze, packets and none", name)
		case len(f.nemeses) > 1:
			return nil, usageError("--nemesis none and others contradict each other: leave one of them out")
		}
	}
	for _, b := range f.breaks {
		if !slices.Contains([]string{history.Failover, history.Memory, history.Clock}, b) {
			return nil, usageError("--breaks %q is not known: give failover, memory or clock", b)
		}
	}
	switch {
	case f.strike != "":
		all = append(all, torture.Commands(f.strike, f.heal, f.breaks...))
	case f.heal != "":
		return nil, usageError("--heal ends the fault of --strike: give that too")
	}
	return all, nil
}

// torture makes a trial and prints its verdict.
func (a *app) torture(ctx context.Context, o torture.Options, asJSON bool) error {
	if err := enoughFiles(); err != nil {
		return err
	}
	o.Open, o.Shown, o.Version = engines.Open, engines.Redact(o.URL), version()
	o.Settings = settingsOf(ctx, o.URL)
	return a.whileRead(ctx, func(ctx context.Context, out io.Writer) error {
		show, cleared := a.follow(out, asJSON)
		o.Status = show
		r, err := torture.Run(ctx, o)
		cleared()
		if errors.Is(err, torture.ErrOptions) {
			return usageError("%w", err)
		}
		if r == nil {
			return err
		}
		for _, n := range r.Notes {
			a.say("%s", n)
		}
		for _, l := range r.Left {
			a.say("a claim could not be ended: %s", l)
		}
		judged := a.verdict(out, r.Dir, asJSON)
		if err != nil {
			return err
		}
		return judged
	})
}

// settingsOf is what an examination says of the server. One that fails shows nothing.
func settingsOf(ctx context.Context, url string) (all []string) {
	_ = engines.Examine(ctx, url, engine.ExamineOptions{Limit: 1}, func(f engine.Finding) {
		if f.Severity > engine.SeverityNote { // of which one is that keys were left out
			all = append(all, f.Severity.String()+": "+f.What)
		}
	})
	return all
}

// everyStatus is how often a status is written where no terminal shows it.
const everyStatus = 10 * time.Second

// follow shows the status of a trial: in one line of a terminal, or in lines. cleared ends
// the line.
func (a *app) follow(out io.Writer, asJSON bool) (show func(torture.Status), cleared func()) {
	screen, ok := a.out.(*os.File)
	if ok && term.IsTerminal(int(screen.Fd())) && !asJSON {
		// A terminal without room cuts the line off (7l), where it would else begin another.
		return func(s torture.Status) { fmt.Fprintf(out, "\r\x1b[?7l%s\x1b[K\x1b[?7h", statusText(s)) },
			func() { fmt.Fprint(out, "\r\x1b[K") }
	}
	var last time.Time
	return func(s torture.Status) {
		if s.Left > 0 && time.Since(last) < everyStatus {
			return
		}
		last = time.Now()
		if asJSON {
			_ = writeJSON(out, viewStatus(s), "") // out remembers that it failed
			return
		}
		fmt.Fprintln(out, statusText(s))
	}, func() {}
}

func statusText(s torture.Status) string {
	return fmt.Sprintf("%v left, %d violations so far, %d leases, %d of %d faults bit, longest wait %v, %d leases lost",
		s.Left.Round(time.Second), s.Violations, s.Holds, s.Bits, s.Strikes, s.Waited.Round(time.Millisecond), s.Lost)
}

// statusView is a status in JSON.
type statusView struct {
	Left       float64 `json:"left"` // seconds, as all times here
	Leases     int     `json:"leases"`
	Faults     int     `json:"faults"`
	Effects    int     `json:"effects"`
	Lost       int     `json:"lost"`
	Failed     int     `json:"failed"`
	Waited     float64 `json:"waited"`
	Violations int     `json:"violations"`
}

func viewStatus(s torture.Status) map[string]statusView {
	return map[string]statusView{"status": {s.Left.Seconds(), s.Holds, s.Strikes, s.Bits, s.Lost, s.Failed, s.Waited.Seconds(), s.Violations}}
}

// codeVoid is of a trial that saw no violation, and could not have: the code with which
// tests say that they were skipped.
const codeVoid = 77

// verdict judges a history, prints what came of it and sets the exit code.
func (a *app) verdict(out io.Writer, dir string, asJSON bool) error {
	r, err := torture.Judge(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usageError("%w: give the directory that torture wrote", err)
	case err != nil:
		return &exitError{codeUsage, err}
	}
	switch {
	case r.Has(check.Violated):
		a.code = codeFailed
	case r.Has(check.Void), r.Has(check.TooWeak):
		a.code = codeVoid
	}
	if asJSON {
		return writeJSON(out, map[string]any{"result": r, "dir": dir}, "")
	}
	rows := [][]string{}
	for _, v := range r.Verdicts {
		rows = append(rows, []string{string(v.Property), string(v.Word), printable(v.Why)})
	}
	if err := table(out, rows...); err != nil {
		return err
	}
	const shown = 5
	var b strings.Builder
	for i, f := range r.Findings {
		if i == shown {
			fmt.Fprintf(&b, "and %d more in the report\n", len(r.Findings)-shown)
			break
		}
		fmt.Fprintf(&b, "%s: %s, lines %s of the history\n", f.Property, printable(f.Text), strings.Trim(fmt.Sprint(f.Lines), "[]"))
	}
	fmt.Fprintf(&b, "The history and the report are in %s; seed %d.\n", printable(dir), r.Run.Seed)
	_, err = io.WriteString(out, b.String())
	return err
}

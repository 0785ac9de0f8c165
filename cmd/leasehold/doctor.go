package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"leasehold/engine"
	"leasehold/engines"
)

// findingView is a finding in JSON.
type findingView struct {
	Severity string `json:"severity"`
	What     string `json:"what"`
	Means    string `json:"means"`
	Do       string `json:"do"`
}

func (a *app) doctorCommand() *cobra.Command {
	var o engine.ExamineOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [URL]",
		Short: "Examine a live store for dangers to locks, and change nothing",
		Long: `Examine a live store, that of the engine's URL or of another, and print the
dangers for locks there. These are settings of its servers, and locks of other
programs that never end or that nobody holds. Each finding says what it means and
what to do. docs/doctor.md explains all of them.

The command only reads. It makes no table, writes no key, and reads at most
--limit keys, rows or nodes. A part that the user of the URL may not read is a note.

The exit code is 1 if there is a problem or a warning, and 0 if there are only
notes or no findings.`,
		Args: arguments(0, 1, "one URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rawURL, err := a.doctorsURL(args)
			switch {
			case err != nil:
				return err
			case a.require != "":
				return usageError("--require asks for promises of an engine, and doctor opens none: leave it out")
			case o.Limit < 1:
				return usageError("--limit %d is below 1", o.Limit)
			}
			var all []findingView
			var worst engine.Severity
			err = untilAsked(cmd.Context(), func(ctx context.Context) error {
				return engines.Examine(ctx, rawURL, o, func(f engine.Finding) {
					all, worst = append(all, findingView{f.Severity.String(), f.What, f.Means, f.Do}), max(worst, f.Severity)
				})
			})
			if err != nil {
				return err
			}
			if worst > engine.SeverityNote {
				a.code = codeFailed
			}
			if asJSON {
				return writeJSON(a.out, append([]findingView{}, all...), "  ")
			}
			return printFindings(a.out, all)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.Names, "keys", nil, "keys, tables and nodes that count as locks, such as 'order:*' (default *lock*, *mutex*, *lease*); may be repeated")
	flags.IntVar(&o.Limit, "limit", 10_000, "how many keys, rows or nodes are read at most")
	flags.BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// doctorsURL is the argument, or else the engine's URL.
func (a *app) doctorsURL(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return a.engineURL()
	case a.chosen():
		return "", usageError("an argument and --engine name a store each: leave one of them out")
	}
	return givenURL("the argument", args[0])
}

// printFindings prints findings for people, and how many there are.
func printFindings(w io.Writer, all []findingView) error {
	var b strings.Builder
	count := map[string]int{}
	for _, f := range all {
		count[f.Severity]++
		fmt.Fprintf(&b, "%s: %s\n    %s\n    Do: %s\n\n", f.Severity, printable(f.What), printable(f.Means), printable(f.Do))
	}
	var total []string
	for s := engine.SeverityProblem; ; s-- {
		if n := count[s.String()]; n == 1 {
			total = append(total, "1 "+s.String())
		} else {
			total = append(total, fmt.Sprintf("%d %ss", n, s))
		}
		if s == engine.SeverityNote {
			break
		}
	}
	fmt.Fprintln(&b, strings.Join(total, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}

package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// release is the version of a program of a release, which the linker sets.
var release string

// version is what the Go tool knows of this build: the module's version, or
// the commit where it was built in a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text, commit, changed := cmp.Or(release, info.Main.Version, "(devel)"), "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed since"
		}
	}
	if commit != "" {
		text += fmt.Sprintf(" (commit %.12s%s)", commit, changed)
	}
	return fmt.Sprintf("%s %s", text, info.GoVersion)
}

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages",
		Long: `Write the manual pages, one for each command, into DIRECTORY, for example with
leasehold man ~/.local/share/man/man1. man makes the directory if it is missing.
The pages have the date of SOURCE_DATE_EPOCH if that is set, or today's.`,
		Args: arguments(1, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return &exitError{codeFailed, err}
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "leasehold", Manual: "leasehold " + version()}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return &exitError{codeFailed, err}
			}
			return nil
		},
	}
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says what is wrong with a flag. The library's own words are for
// programmers.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		empty   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		text    = err.Error()
	)
	switch {
	case errors.As(err, &unknown):
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		text = fmt.Sprintf("there is no %s%s", dashes, unknown.GetSpecifiedName())
	case errors.As(err, &empty):
		text = fmt.Sprintf("--%s needs %s", empty.GetFlag().Name, valueOf(empty.GetFlag()))
	case errors.As(err, &invalid):
		text = fmt.Sprintf("--%s %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), valueOf(invalid.GetFlag()))
	}
	return usageError("%s: see %s --help", text, cmd.CommandPath())
}

// valueOf says what a flag takes.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a duration, such as 500ms, 30s or 1h30m"
	case "bool":
		return "true or false"
	case "uint64":
		return "a number"
	case "int", "int32":
		return "a number below 2147483648"
	}
	return "a value"
}

// arguments bounds how many a command takes. They are called what they are.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return usageError("%s needs %s: see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		case n > most && most == 0:
			return usageError("%s takes no argument, and %q was given", cmd.CommandPath(), args[0])
		case n > most:
			return usageError("%s takes %s, and %d arguments were given: a name with spaces needs quotes", cmd.CommandPath(), what, n)
		}
		return nil
	}
}

// noSuchCommand is what the root says of an argument: it has none.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += ": did you mean " + strings.Join(like, " or ") + "?"
	}
	return usageError("%s", text)
}

// strict makes the library's own commands, completion and help, refuse what
// they do not know, and --help too.
func (a *app) strict(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			a.unknown = noSuchCommand(cmd, cmd.Flags().Args())
			return
		}
		help(cmd, args)
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run = nil
			cmd.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return noSuchCommand(root, args)
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		case "completion":
			var shells []string
			for _, shell := range cmd.Commands() {
				shell.Args = arguments(0, 0, "")
				shells = append(shells, shell.Name())
			}
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usageError("there is no completion for %q: known are %s", args[0], strings.Join(shells, ", "))
				}
				return nil
			}
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

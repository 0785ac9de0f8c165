package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"leasehold/engine/postgres/pglock"
)

func (a *app) schemaCommand() *cobra.Command {
	var o pglock.Options
	cmd := &cobra.Command{
		Use:   "schema postgres",
		Short: "Print the tables and functions that a database needs",
		Long: `Print, as SQL, the tables and functions that locks in a database need, for who may
create them where the programs that lock may not:

    leasehold schema postgres | psql postgres://owner@host/database

A program that may create them does so by itself. The grants that a program needs
are in docs/engines.md.`,
		Args:      arguments(1, 1, "a kind of database"),
		ValidArgs: []string{"postgres"},
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "postgres" {
				return usageError("%q has no schema here: known is postgres", args[0])
			}
			text, err := pglock.Schema(&o)
			if err != nil {
				return usageError("%w", err)
			}
			if _, err := fmt.Fprint(a.out, text); err != nil {
				return &exitError{codeFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Schema, "schema", "leasehold", "the schema that has them, as ?schema= in the URL")
	cmd.Flags().StringVar(&o.Prefix, "prefix", "", "what their names begin with, as ?prefix= in the URL")
	return cmd
}

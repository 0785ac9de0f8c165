package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"leasehold/engine/mysql/mysqllock"
	"leasehold/engine/postgres/pglock"
)

func (a *app) schemaCommand() *cobra.Command {
	var schema, prefix string
	cmd := &cobra.Command{
		Use:   "schema postgres|mysql",
		Short: "Print the tables and functions that a database needs",
		Long: `Print, as SQL, the tables and functions that locks in a database need, for who may
create them where the programs that lock may not:

    leasehold schema postgres | psql postgres://owner@host/database
    leasehold schema mysql | mysql --host=host --user=owner database

A program that may create them does so by itself. It may be run again at any time, also
while locks are held: tables and what is in them stay, and functions are replaced. A
program that finds older functions and may not replace them says so: run this of the
newest version in use, as their owner, before such programs start. The grants that a program needs
are in docs/engines.md.`,
		Args:      arguments(1, 1, "a kind of database"),
		ValidArgs: []string{"postgres", "mysql"},
		RunE: func(cmd *cobra.Command, args []string) error {
			var text string
			var err error
			switch args[0] {
			case "postgres":
				text, err = pglock.Schema(&pglock.Options{Schema: schema, Prefix: prefix})
			case "mysql", "mariadb":
				if cmd.Flags().Changed("schema") {
					return usageError("MySQL has no schemas in a database: name the database to the program that reads this")
				}
				text, err = mysqllock.Schema(&mysqllock.Options{Prefix: prefix})
			default:
				return usageError("%q has no schema here: known are postgres and mysql", args[0])
			}
			if err != nil {
				return usageError("%w", err)
			}
			if _, err := fmt.Fprint(a.out, text); err != nil {
				return &exitError{codeFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&schema, "schema", "leasehold", "postgres: the schema that has them, as ?schema= in the URL")
	cmd.Flags().StringVar(&prefix, "prefix", "", "what their names begin with, as ?prefix= in the URL")
	return cmd
}

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) schemaCommand() *cobra.Command {
	var schema, prefix string
	var unlogged time.Duration
	cmd := &cobra.Command{
		Use:   "schema postgres|mysql",
		Short: "Print the tables and functions that a database needs",
		Long: `Print the SQL that creates the tables and functions for locks in a database. A
program whose user may create them does so itself. For a program whose user may
not, let their owner create them:

    leasehold schema postgres | psql postgres://owner@host/database
    leasehold schema mysql | mysql --host=host --user=owner database

The owner may run the SQL again at any time, even while locks are held. It keeps
tables and their rows, and replaces functions. A program that finds older
functions and may not replace them fails and says so. Run the SQL of the
newest version in use before such programs start. docs/engines.md has the grants
that a program needs.`,
		Args:      arguments(1, 1, "a kind of database"),
		ValidArgs: []string{"postgres", "mysql"},
		RunE: func(cmd *cobra.Command, args []string) error {
			var text string
			var err error
			switch args[0] {
			case "postgres":
				text, err = schemaPostgres(schema, prefix, unlogged)
			case "mysql", "mariadb":
				if cmd.Flags().Changed("schema") {
					return usageError("--schema is for postgres: a MySQL database has no schemas; choose the database in the program that runs the SQL")
				}
				if unlogged != 0 {
					return usageError("--unlogged is for postgres: the tables of a MySQL database are always stored")
				}
				text, err = schemaMySQL(prefix)
			default:
				return usageError("there is no SQL for %q: give postgres or mysql", args[0])
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
	cmd.Flags().StringVar(&schema, "schema", "leasehold", "postgres: the schema of the tables and functions, as ?schema= in the URL")
	cmd.Flags().StringVar(&prefix, "prefix", "", "prefix of the names of tables and functions, as ?prefix= in the URL")
	cmd.Flags().DurationVar(&unlogged, "unlogged", 0, "postgres: have the tables lie in memory, as ?unlogged= in the URL")
	return cmd
}

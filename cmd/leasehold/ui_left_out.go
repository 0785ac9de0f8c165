//go:build no_ui

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) uiCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "ui",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return usageError("%w", errors.New("this program has no pages: the build tag no_ui left them out: take a program that was built without the tag"))
		},
	}
}

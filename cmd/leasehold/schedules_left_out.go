//go:build no_redis || no_zookeeper

package main

import "github.com/spf13/cobra"

// The locks of articles need the clients of both stores.
const aboutSchedules = ""

func (a *app) scheduleCommands() []*cobra.Command    { return nil }
func (a *app) demoProcessCommands() []*cobra.Command { return nil }

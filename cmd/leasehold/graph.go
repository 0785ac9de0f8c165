package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/view"
)

func (a *app) graphCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Draw who holds what and who waits for what",
		Long: `Print a graph of all queues, for Mermaid or Graphviz. An arrow leads from each
name to its holders, and from each waiting caller to the name that it wants. A
caller is one node with the names that it reported to hold when it asked. Callers
in a cycle are marked.`,
		Example: `  leasehold graph --format dot | dot -Tsvg > locks.svg`,
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(io.Writer, *graph) error{"mermaid": writeMermaid, "dot": writeDot}[format]
			if !ok {
				return usageError("--format %q is neither mermaid nor dot: give one of the two", format)
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				s, err := readSnapshot(ctx, locks)
				if err != nil {
					return err
				}
				return write(a.out, graphOf(s))
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "mermaid", "mermaid or dot")
	return cmd
}

// graph is names and callers, and the edges between them.
type graph struct {
	names   []string
	callers []caller
	edges   []edge
}

type caller struct {
	text  string
	cycle bool
}

// edge is from a name to its holder, or from a caller to the name it waits for.
type edge struct {
	name, caller int
	waits        bool
	ticket       uint64
}

// graphOf makes a caller of a waiting claim and those that it names, and of each other
// claim one of its own.
func graphOf(s *view.Snapshot) *graph {
	g := &graph{}
	callers := map[view.Key]int{}
	add := func(c engine.Claim) int {
		g.callers = append(g.callers, caller{text: c.Owner.String()})
		return len(g.callers) - 1
	}
	for _, l := range s.Queues {
		for _, c := range l.Claims {
			if c.State != engine.Waiting {
				continue
			}
			at := -1
			for _, h := range c.Owner.Holds {
				if o, ok := callers[view.Key{Name: h.Name, Ticket: h.Ticket}]; ok && !h.Elsewhere {
					at = o // several goroutines wait while they hold one thing
				}
			}
			if at < 0 {
				at = add(c)
			}
			callers[view.Key{Name: c.Name, Ticket: c.Ticket}] = at
			for _, h := range c.Owner.Holds {
				if !h.Elsewhere {
					callers[view.Key{Name: h.Name, Ticket: h.Ticket}] = at
				}
			}
			g.callers[at].cycle = g.callers[at].cycle || s.InCycle(c)
		}
	}
	for i, l := range s.Queues {
		g.names = append(g.names, l.Name)
		for _, c := range l.Claims {
			k := view.Key{Name: c.Name, Ticket: c.Ticket}
			at, ok := callers[k]
			if !ok {
				at = add(c)
				callers[k] = at
			}
			g.edges = append(g.edges, edge{i, at, c.State == engine.Waiting, c.Ticket})
		}
	}
	return g
}

func writeMermaid(w io.Writer, g *graph) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n  classDef cycle stroke:#d00,stroke-width:3px\n")
	for i, n := range g.names {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, mermaidText(n))
	}
	for i, c := range g.callers {
		mark := ""
		if c.cycle {
			mark = ":::cycle"
		}
		fmt.Fprintf(&b, "  c%d([\"%s\"])%s\n", i, mermaidText(c.text), mark)
	}
	for _, e := range g.edges {
		if e.waits {
			fmt.Fprintf(&b, "  c%d -.->|\"waits, %d\"| n%d\n", e.caller, e.ticket, e.name)
		} else {
			fmt.Fprintf(&b, "  n%d -->|\"held, %d\"| c%d\n", e.name, e.ticket, e.caller)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeDot(w io.Writer, g *graph) error {
	var b strings.Builder
	b.WriteString("digraph leasehold {\n  rankdir=LR\n")
	for i, n := range g.names {
		fmt.Fprintf(&b, "  n%d [shape=box, label=\"%s\"]\n", i, dotText(n))
	}
	for i, c := range g.callers {
		mark := ""
		if c.cycle {
			mark = ", color=red, penwidth=3"
		}
		fmt.Fprintf(&b, "  c%d [label=\"%s\"%s]\n", i, dotText(c.text), mark)
	}
	for _, e := range g.edges {
		if e.waits {
			fmt.Fprintf(&b, "  c%d -> n%d [style=dashed, label=\"waits, %d\"]\n", e.caller, e.name, e.ticket)
		} else {
			fmt.Fprintf(&b, "  n%d -> c%d [label=\"held, %d\"]\n", e.name, e.caller, e.ticket)
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// mermaidText is s as a label of Mermaid, which reads quotes, markup and entities in
// labels: whatever is no letter, digit or harmless mark is written by its number.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range printable(s) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_./:()", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// dotText is s within the quotes of a label of Graphviz.
func dotText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(printable(s))
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"leasehold"
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
			write, ok := map[string]func(io.Writer, *view.Graph) error{"mermaid": writeMermaid, "dot": writeDot}[format]
			if !ok {
				return usageError("--format %q is neither mermaid nor dot: give one of the two", format)
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				s, err := readSnapshot(ctx, locks)
				if err != nil {
					return err
				}
				return write(a.out, s.Graph(s.Circles(0)))
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "mermaid", "mermaid or dot")
	return cmd
}

func writeMermaid(w io.Writer, g *view.Graph) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n  classDef cycle stroke:#d00,stroke-width:3px\n")
	for i, n := range g.Names {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, mermaidText(n))
	}
	for i, c := range g.Callers {
		mark := ""
		if c.Cycle {
			mark = ":::cycle"
		}
		fmt.Fprintf(&b, "  c%d([\"%s\"])%s\n", i, mermaidText(c.Owner.String()), mark)
	}
	for _, e := range g.Edges {
		if e.Waits {
			fmt.Fprintf(&b, "  c%d -.->|\"waits, %d\"| n%d\n", e.Caller, e.Ticket, e.Name)
		} else {
			fmt.Fprintf(&b, "  n%d -->|\"held, %d\"| c%d\n", e.Name, e.Ticket, e.Caller)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeDot(w io.Writer, g *view.Graph) error {
	var b strings.Builder
	b.WriteString("digraph leasehold {\n  rankdir=LR\n")
	for i, n := range g.Names {
		fmt.Fprintf(&b, "  n%d [shape=box, label=\"%s\"]\n", i, dotText(n))
	}
	for i, c := range g.Callers {
		mark := ""
		if c.Cycle {
			mark = ", color=red, penwidth=3"
		}
		fmt.Fprintf(&b, "  c%d [label=\"%s\"%s]\n", i, dotText(c.Owner.String()), mark)
	}
	for _, e := range g.Edges {
		if e.Waits {
			fmt.Fprintf(&b, "  c%d -> n%d [style=dashed, label=\"waits, %d\"]\n", e.Caller, e.Name, e.Ticket)
		} else {
			fmt.Fprintf(&b, "  n%d -> c%d [label=\"held, %d\"]\n", e.Name, e.Caller, e.Ticket)
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

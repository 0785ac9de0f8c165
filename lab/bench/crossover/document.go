package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"leasehold/lab/bench/plots"
	"leasehold/lab/internal/page"
	"leasehold/lab/internal/svg"
)

// table has a row for each number of writers; the fastest in bold.
func (r *result) table() string {
	var b strings.Builder
	b.WriteString("| writers |")
	for _, w := range r.ways {
		b.WriteString(" " + w + " |")
	}
	b.WriteString(" attempts per update | gave up |\n|---|" + strings.Repeat("---|", len(r.ways)+2) + "\n")
	for _, n := range r.writers {
		best := 0.0
		for _, w := range r.ways {
			best = max(best, r.cells[w][n].rate())
		}
		fmt.Fprintf(&b, "| %d |", n)
		for _, w := range r.ways {
			mark := ""
			if rate := r.cells[w][n].rate(); rate == best {
				mark = "**"
			}
			fmt.Fprintf(&b, " %s%.0f%s |", mark, r.cells[w][n].rate(), mark)
		}
		c := r.cells["version column"][n]
		fmt.Fprintf(&b, " %.2f | %.1f %% |\n", float64(c.updates+c.conflicts)/float64(c.updates), 100*float64(c.gaveUp)/float64(c.updates+c.gaveUp))
	}
	return b.String()
}

// write puts the tables between the markers of a page and draws the plots.
func write(file string, results []*result, window time.Duration, rounds int) error {
	folder := filepath.Join(filepath.Dir(file), "plots")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Updates per second of one row, PostgreSQL on loopback, commits not synced; %d cores, %s, %s; medians of %d rounds of %v in turns.\n",
		runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly), rounds, window)
	for _, r := range results {
		name := "crossover-" + r.name
		fmt.Fprintf(&b, "\n**%s**\n\n%s\n<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"plots/%s-dark.svg\">\n"+
			"  <img src=\"plots/%s-light.svg\" alt=\"%s: updates per second by number of writers, as in the table\">\n</picture>\n", r.title, r.table(), name, name, r.title)
		if err := r.draw(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return page.Put(file, "crossover", "\n"+b.String()+"\n")
}

// draw is one line for each way, both axes logarithmic.
func (r *result) draw(base string) error {
	lines := map[string]plotter.XYs{}
	for _, w := range r.ways {
		for _, n := range r.writers {
			lines[w] = append(lines[w], plotter.XY{X: float64(n), Y: max(r.cells[w][n].rate(), 0.1)}) // zero has no logarithm
		}
	}
	var failed error
	err := plots.Write(base, 560, 300, func(t svg.Theme) *plot.Plot {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.Y.Label.Text = r.title, "writers", "updates per second"
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
		var ticks plot.ConstantTicks
		for _, n := range r.writers {
			ticks = append(ticks, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
		}
		p.X.Tick.Marker = ticks
		p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, vg.Points(8)
		// The same colour for a way in every drawing.
		colors := map[string]color.Color{"leasehold": t.Us, "one statement": t.Others[0], "version column": t.Others[1], "row lock": t.Others[2]}
		for _, w := range r.ways {
			line, err := plotter.NewLine(lines[w])
			if err != nil {
				failed = err
				return p
			}
			line.Width, line.Color = vg.Points(2), colors[w]
			p.Add(line)
			p.Legend.Add(w, line)
		}
		// Room for the legend, and for the last number of the X axis.
		p.Y.Min, p.Y.Max = p.Y.Min/2, p.Y.Max*4
		p.X.Max *= 1.1
		return p
	})
	if failed != nil {
		return failed
	}
	return err
}

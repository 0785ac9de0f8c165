package torture

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"leasehold/torture/check"
	"leasehold/torture/history"
	"leasehold/torture/report"
)

// Report is the name of the report in the directory of a trial.
const Report = "report.html"

// Judge judges the history in dir, and writes the report beside it. It needs no server. If
// the history contradicts itself there is an error, and a report without a verdict.
func Judge(dir string) (*check.Result, error) {
	events, err := read(dir)
	if err != nil {
		return nil, err
	}
	result, err := check.History(events, check.Options{Queue: true})
	if err != nil {
		return nil, errors.Join(err, draw(dir, events, nil))
	}
	return result, draw(dir, events, result)
}

func read(dir string) ([]history.Event, error) {
	f, err := os.Open(filepath.Join(dir, History))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Parse(bufio.NewReader(f))
}

func draw(dir string, events []history.Event, result *check.Result) error {
	f, err := os.Create(filepath.Join(dir, Report))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	return errors.Join(report.Write(out, events, result), out.Flush(), f.Close())
}

// Violations is how many findings the engine does not declare.
func Violations(r *check.Result) (n int) {
	for _, v := range r.Verdicts {
		n += v.Found - v.Declared
	}
	return n
}

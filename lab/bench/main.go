// Command bench drives leasehold and its competitors against the same real servers
// in the same run and prints ratios. See package harness for the method and
// docs/performance.md for the results.
//
//	go run ./lab/bench -suite core                 # the core's bars
//	go run ./lab/bench -suite redis -json out.json
//	go run ./lab/bench -suite zookeeper
//	go run ./lab/bench -suite sql
//	go run ./lab/bench -suite mysql
//	go run ./lab/bench -suite all -quick           # everything, roughly
//	go run ./lab/bench -from out.json -write-docs docs/performance.md
//	go run ./lab/bench -self-test                   # does the harness notice?
//
// It exits with 1 if a target is missed that expected.json does not know, and
// with 2 if it could not measure.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"leasehold/lab/bench/harness"
)

//go:embed expected.json
var expectedJSON []byte

// suites is every suite there is. Adding one is a file and a line here.
func suites() []*harness.Suite {
	return []*harness.Suite{coreSuite(), redisSuite(), zookeeperSuite(), etcdSuite(), sqlSuite(), mysqlSuite()}
}

// find is how a worker process finds the competitor it is told to use.
func find(suite, competitor string) (harness.Competitor, error) {
	for _, f := range append(suites(), selfTestSuite("")) {
		if f.Name == suite {
			return f.Competitor(competitor)
		}
	}
	return harness.Competitor{}, fmt.Errorf("no suite %q", suite)
}

func main() {
	if os.Getenv(harness.WorkerEnv) != "" {
		if err := harness.Work(find); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(2)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	missed, err := run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case missed:
		os.Exit(1)
	}
}

// report is what -json writes.
type report struct {
	Machine harness.Machine    `json:"machine"`
	Quick   bool               `json:"quick"`
	Rounds  int                `json:"rounds"`
	Suites  []*harness.Results `json:"suites"`
}

func run(ctx context.Context) (missed bool, err error) {
	var (
		suite          = flag.String("suite", "all", "which engine's competitors: "+strings.Join(names(), ", ")+" or all")
		quick          = flag.Bool("quick", false, "short windows and one round; times are reported but only counts are enforced")
		rounds         = flag.Int("rounds", 0, "rounds per workload (default 5; 1 with -quick)")
		only           = flag.String("only", "", "workloads to run, by the beginning of their IDs, separated by commas")
		onlyCompetitor = flag.String("competitors", "", "competitors to run, by name, separated by commas")
		jsonFile       = flag.String("json", "", "write all figures to this `file`")
		from           = flag.String("from", "", "print the figures of these `files`, which -json wrote, separated by commas, instead of measuring")
		docs           = flag.String("write-docs", "", "put the tables between the markers of this `file`")
		readme         = flag.String("write-readme", "", "put the table of ratios between the markers of this `file`, and the plot beside it")
		selfTest       = flag.Bool("self-test", false, "show that the harness notices broken locks, starved processes and miscounted requests")
	)
	flag.Parse()
	if flag.NArg() > 0 {
		return false, fmt.Errorf("unexpected argument %q; see -help", flag.Arg(0))
	}
	if *selfTest {
		return false, selfTests(ctx)
	}
	if *from != "" {
		return false, reprint(strings.Split(*from, ","), *docs, *readme)
	}
	chosen, err := choose(*suite)
	if err != nil {
		return false, err
	}
	expected, err := harness.ReadExpected(expectedJSON)
	if err != nil {
		return false, err
	}
	choice := harness.Choice{Scale: harness.Scale{Quick: *quick, Rounds: *rounds}, Progress: os.Stderr}
	if choice.Rounds == 0 {
		choice.Rounds = 5
		if *quick {
			choice.Rounds = 1
		}
	}
	if *only != "" {
		choice.Only = strings.Split(*only, ",")
	}
	if *onlyCompetitor != "" {
		choice.Competitors = strings.Split(*onlyCompetitor, ",")
	}
	all := report{Machine: harness.ThisMachine(), Quick: *quick, Rounds: choice.Rounds}
	for _, f := range chosen {
		r, err := f.Run(ctx, choice)
		if err != nil {
			return false, err
		}
		f.Judge(r, expected, choice)
		all.Suites = append(all.Suites, r)
		fmt.Printf("\n## %s\n\n", r.Title)
		r.Write(os.Stdout, all.Machine)
		if *docs != "" {
			if err := r.WriteDocs(*docs, all.Machine); err != nil {
				return false, err
			}
		}
	}
	if *jsonFile != "" {
		b, err := json.MarshalIndent(all, "", "\t")
		if err == nil {
			err = os.WriteFile(*jsonFile, append(b, '\n'), 0o644)
		}
		if err != nil {
			return false, err
		}
	}
	if *readme != "" {
		if err := summarize(*readme, all); err != nil {
			return false, err
		}
	}
	for _, r := range all.Suites {
		for _, id := range r.Failed() {
			missed = true
			fmt.Fprintln(os.Stderr, "bench: bar missed or not measured:", id)
		}
	}
	return missed, nil
}

// reprint prints what earlier runs measured, as it was judged then.
func reprint(files []string, docs, readme string) error {
	var together report
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var all report
		if err := json.Unmarshal(b, &all); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, r := range all.Suites {
			chosen, err := choose(r.Suite)
			if err != nil {
				return err
			}
			chosen[0].Describe(r)
			r.Write(os.Stdout, all.Machine)
			if docs != "" {
				if err := r.WriteDocs(docs, all.Machine); err != nil {
					return err
				}
			}
			together.Suites = append(together.Suites, r)
		}
	}
	if readme == "" {
		return nil
	}
	return summarize(readme, together)
}

func names() (all []string) {
	for _, f := range suites() {
		all = append(all, f.Name)
	}
	return all
}

func choose(name string) ([]*harness.Suite, error) {
	if name == "all" || name == "" {
		return suites(), nil
	}
	var chosen []*harness.Suite
	for _, word := range strings.Split(name, ",") {
		found := false
		for _, f := range suites() {
			if f.Name == word {
				chosen, found = append(chosen, f), true
			}
		}
		if !found {
			return nil, errors.New("no suite " + word + ": there are " + strings.Join(names(), ", ") + " and all")
		}
	}
	return chosen, nil
}

// Command bench drives leasehold and its peers against the same real servers
// in the same run and prints ratios. See package harness for the method and
// docs/performance.md for the results.
//
//	go run ./bench -family core                 # the core's bars
//	go run ./bench -family redis -json out.json
//	go run ./bench -family zookeeper
//	go run ./bench -family sql
//	go run ./bench -family mysql
//	go run ./bench -family all -quick           # everything, roughly
//	go run ./bench -from out.json -write-docs docs/performance.md
//	go run ./bench -self-test                   # does the harness notice?
//
// It exits with 1 if a bar is missed that expected.json does not know, and
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

	"leasehold/bench/harness"
)

//go:embed expected.json
var expectedJSON []byte

// families is every family there is. Adding one is a file and a line here.
func families() []*harness.Family {
	return []*harness.Family{coreFamily(), redisFamily(), zookeeperFamily(), etcdFamily(), sqlFamily(), mysqlFamily()}
}

// find is how a worker process finds the peer it is told to use.
func find(family, peer string) (harness.Peer, error) {
	for _, f := range append(families(), selfTestFamily("")) {
		if f.Name == family {
			return f.Peer(peer)
		}
	}
	return harness.Peer{}, fmt.Errorf("no family %q", family)
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
	Machine  harness.Machine    `json:"machine"`
	Quick    bool               `json:"quick"`
	Rounds   int                `json:"rounds"`
	Families []*harness.Results `json:"families"`
}

func run(ctx context.Context) (missed bool, err error) {
	var (
		family   = flag.String("family", "all", "which engine's peers: "+strings.Join(names(), ", ")+" or all")
		quick    = flag.Bool("quick", false, "short windows and one round; times are reported but only counts are enforced")
		rounds   = flag.Int("rounds", 0, "rounds per workload (default 5; 1 with -quick)")
		only     = flag.String("only", "", "workloads to run, by the beginning of their IDs, separated by commas")
		onlyPeer = flag.String("peers", "", "peers to run, by name, separated by commas")
		jsonFile = flag.String("json", "", "write all figures to this `file`")
		from     = flag.String("from", "", "print the figures of these `files`, which -json wrote, separated by commas, instead of measuring")
		docs     = flag.String("write-docs", "", "put the tables between the markers of this `file`")
		readme   = flag.String("write-readme", "", "put the table of ratios between the markers of this `file`, and the plot beside it")
		selfTest = flag.Bool("self-test", false, "show that the harness notices broken locks, starved processes and miscounted requests")
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
	chosen, err := choose(*family)
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
	if *onlyPeer != "" {
		choice.Peers = strings.Split(*onlyPeer, ",")
	}
	all := report{Machine: harness.ThisMachine(), Quick: *quick, Rounds: choice.Rounds}
	for _, f := range chosen {
		r, err := f.Run(ctx, choice)
		if err != nil {
			return false, err
		}
		f.Judge(r, expected, choice)
		all.Families = append(all.Families, r)
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
	for _, r := range all.Families {
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
		for _, r := range all.Families {
			chosen, err := choose(r.Family)
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
			together.Families = append(together.Families, r)
		}
	}
	if readme == "" {
		return nil
	}
	return summarize(readme, together)
}

func names() (all []string) {
	for _, f := range families() {
		all = append(all, f.Name)
	}
	return all
}

func choose(name string) ([]*harness.Family, error) {
	if name == "all" || name == "" {
		return families(), nil
	}
	var chosen []*harness.Family
	for _, word := range strings.Split(name, ",") {
		found := false
		for _, f := range families() {
			if f.Name == word {
				chosen, found = append(chosen, f), true
			}
		}
		if !found {
			return nil, errors.New("no family " + word + ": there are " + strings.Join(names(), ", ") + " and all")
		}
	}
	return chosen, nil
}

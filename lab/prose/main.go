// Prose checks what people read of this project: pages, doc comments, help texts and
// errors. A sentence is plain if its subject is a component or a person, its verb a
// standard one, its words those of the glossary, and if it need not be read twice.
//
//	go run ./lab/prose                 what is not plain, in the whole tree
//	go run ./lab/prose docs/design.md  in some files or folders
//	go run ./lab/prose -stats          and how long the sentences of each page are
//
// What it cannot do: it knows patterns, not grammar. A sentence may be bad and pass; a
// sentence that does not pass can always be written better.
//
// Vale would be the library for that. Its releases do not build from the module proxy
// alone, and it reads neither error texts nor the help of commands, which is half of what
// is checked here.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	stats := flag.Bool("stats", false, "print the median length of the sentences of each page")
	flag.Parse()
	paths := flag.Args()
	if len(paths) == 0 {
		paths = []string{"."}
	}
	found, err := check(paths, *stats)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d sentences are not plain\n", found)
		os.Exit(1)
	}
}

// check prints what is not plain, and returns how much that is.
func check(paths []string, stats bool) (found int, err error) {
	rules := rulebook()
	files, err := sources(paths)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		texts, err := read(file)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		var lengths []int
		for _, t := range texts {
			for _, s := range t.sentences() {
				if t.kind == page && s.words > 3 {
					lengths = append(lengths, s.words)
				}
				for _, f := range judge(rules, t.kind, s) {
					found++
					fmt.Printf("%s:%d: %s (%s): %s\n", file, t.line, f.rule, f.advice, shortened(s.text))
				}
			}
		}
		if stats && len(lengths) > 0 {
			fmt.Printf("%s: %d sentences, %d words in the median\n", file, len(lengths), median(lengths))
		}
		if m := median(lengths); m > mostMedian {
			found++
			fmt.Printf("%s: long (at most %d words in the median): %d\n", file, mostMedian, m)
		}
	}
	return found, nil
}

// mostMedian bounds the median length of a page's sentences, in words.
const mostMedian = 18

func median(of []int) int {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}

func shortened(s string) string {
	const most = 160
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// sources are the files below paths whose text people read: pages, and Go files of what
// users import or run. Tests and what is only run here are not among them, unless named.
func sources(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		err = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name := d.Name(); d.IsDir() {
				if p != path && (strings.HasPrefix(name, ".") || name == "testdata" || name == "lab" || name == "enginetest") {
					return filepath.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(p, ".md") && !strings.HasSuffix(p, ".zh-CN.md") && filepath.Base(p) != "CHANGELOG.md" ||
				strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") {
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func read(file string) ([]text, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file, ".md") {
		return markdown(src), nil
	}
	return goSource(file, src)
}

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A block is a fenced part of a page, with what the page says of it in
// comments that readers do not see.
type block struct {
	lang string // after the opening fence
	line int    // of the opening fence, from 1
	text string

	skip  string         // <!-- not run: WHY -->
	print *regexp.Regexp // <!-- prints: REGEXP -->
}

var remark = regexp.MustCompile(`^<!-- *(not run|prints): *(.*?) *-->$`)

// blocks are the fenced blocks of a Markdown page, in order. A remark counts
// for the next block.
func blocks(page string) ([]block, error) {
	var (
		found   []block
		next    block // collects remarks
		open    bool
		content []string
	)
	for i, text := range strings.Split(page, "\n") {
		switch m := remark.FindStringSubmatch(strings.TrimSpace(text)); {
		case !open && strings.HasPrefix(text, "```"):
			next.lang, next.line = strings.TrimPrefix(text, "```"), i+1
			open = true
		case open && text == "```":
			next.text = strings.Join(content, "\n") + "\n"
			found = append(found, next)
			next, content, open = block{}, nil, false
		case open:
			content = append(content, text)
		case m != nil && m[2] == "":
			return nil, fmt.Errorf("line %d: %q says nothing", i+1, m[1])
		case m != nil && m[1] == "not run":
			next.skip = m[2]
		case m != nil:
			re, err := regexp.Compile(m[2])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			next.print = re
		}
	}
	if open {
		return nil, fmt.Errorf("line %d: this block never ends", next.line)
	}
	return found, nil
}

// shell picks the blocks to run. A shell block under another name would
// silently not be run: that is an error.
func shell(all []block) (run []block, err error) {
	for _, b := range all {
		switch b.lang {
		case "sh":
			run = append(run, b)
		case "bash", "shell", "console", "zsh", "shell-session":
			return nil, fmt.Errorf("line %d: write ```sh: only those are run", b.line)
		}
	}
	return run, nil
}

package main

import (
	"fmt"
	"strings"
)

// change is a text of a page that is not true where the tree is published, and what is true there.
type change struct{ old, new string }

// page is a file with what its readers need who have the modules under a public path.
func (r release) page(name string, body []byte) ([]byte, error) {
	text := string(body)
	changes := r.changes(name)
	if changes == nil && strings.HasPrefix(name, "README.") {
		return nil, fmt.Errorf("%s tells its readers to clone, and lab/publish does not know its text: add it to changes", name)
	}
	for _, c := range changes {
		if strings.Count(text, c.old) != 1 {
			return nil, fmt.Errorf("%s does not have this once, so lab/publish cannot change it: %q", name, c.old)
		}
		text = strings.Replace(text, c.old, c.new, 1)
	}
	if name == "CONTRIBUTING.md" {
		before, section, found := strings.Cut(text, aRelease)
		_, after, more := strings.Cut(section, "\n## ")
		if !found || !more {
			return nil, fmt.Errorf("%s has no section that begins with %q, and one after it: lab/publish cannot change it", name, aRelease)
		}
		text = before + aRelease + r.published() + "\n## " + after
	}
	return []byte(text), nil
}

func (r release) changes(name string) []change {
	command := r.Module + "/cmd/leasehold@" + r.Version
	both := []change{
		{"go run ./cmd/leasehold run hello", "go run " + command + " run hello"},
		{"go work init . ../leasehold ../leasehold/engine/redis", "go get " + r.Module + "@" + r.Version + " " + r.Module + "/engine/redis@" + r.Version},
		{"go build -o bin/ ./cmd/leasehold\n", "GOBIN=$PWD/bin go install " + command + "\n"},
	}
	switch name {
	case "README.md":
		return append(both, change{
			"Until leasehold has a public path, clone it beside your module and tie both together with a\n" +
				"workspace. Name the engine that you use, or `../leasehold/engines` for all of them:",
			"Name the engine that you use, or `" + r.Module + "/engines` for all of them:",
		})
	case "README.zh-CN.md":
		return append(both, change{
			"在 leasehold 有公开路径之前，把它 clone 到你的模块旁边，用一个 workspace 连起来。写上你用的那个引擎；要全部引擎\n" +
				"就写 `../leasehold/engines`：",
			"写上所用的引擎，或者用 `" + r.Module + "/engines` 得到全部引擎：",
		})
	case "docs/command-line.md":
		return []change{{
			"Once leasehold has a public path, `go install PATH/cmd/leasehold@v0.9.0` installs the command without a clone.",
			"`go install " + command + "` installs the command without a clone.",
		}}
	case "docs/roadmap.md":
		return []change{{
			"1. v0.9.0 under a public path: `make publish-as` and `make dist` write all of it. A person chooses the path.",
			"1. v0.9.0 under a public path: done.",
		}}
	case "SECURITY.md":
		return []change{{
			"The project has no release yet. It supports the newest commit of the main branch, built with\n" +
				"the Go release that go.mod names or a later one. Security fixes are made there and nowhere\n" +
				"else. From the first release on this section lists versions.",
			"The project supports the newest release, which is " + r.Version + " here, built with the Go release\n" +
				"that go.mod names or a later one. Security fixes are made in a release after it and nowhere else.",
		}}
	case "CONTRIBUTING.md":
		return []change{{
			"go.work ties the modules together. The `replace` lines stand in until the modules have\n" +
				"a public path: see [A release](#a-release). go.work.sum belongs to the tree.",
			"`make work` writes the go.work that ties the modules together; `make deps` does it too. Neither go.work\n" +
				"nor go.work.sum is committed. No go.mod has a `replace` line: what runs without go.work gets them from `.ci/alone`.",
		}}
	}
	return nil
}

const aRelease = "## A release\n"

// published is that section where the tree is published.
func (r release) published() string {
	return `
A program wrote this tree from one whose modules are called ` + "`leasehold`" + `: one commit for each release,
and the tags of all modules. ` + "`make publish-as`" + ` works only in that tree. ` + "`make rolling OLDER=VERSION`" + ` and
` + "`make api-since SINCE=VERSION`" + ` compare this release with an earlier one.
`
}

# leasehold: 'make help' lists what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := help

ROOT     := $(CURDIR)
MODULES   = $(shell go list -m -f '{{.Dir}}')
packages  = $(addsuffix /...,$(1))

# Every package of go.work, and those that are tested without the race detector. It would change
# what the first ones measure. The others are one goroutine each: it would find nothing, for 2 to 20 times the CPU.
PACKAGES  = $(eval PACKAGES := $(shell go list -f '{{.Dir}}' work))$(PACKAGES) # asked once, if at all
UNRACED   = $(addprefix $(ROOT)/,$(addprefix lab/,answers bench interop peers soak) \
	$(addprefix lab/,api readme prose dependencies pictures) internal/claims internal/deadlock internal/sim engine/redis/redlock/model)
unraced   = $(filter $(UNRACED) $(addsuffix /%,$(UNRACED)),$(PACKAGES))
# Those that mostly wait, and are by name the last. First, they wait while others are compiled.
WAITING   = $(addprefix $(ROOT)/,with/% service lab/ui)
raced     = $(filter $(WAITING),$(PACKAGES)) $(filter-out $(unraced) $(WAITING),$(PACKAGES))

# The race detector needs a C compiler on most systems.
RACE      = $(shell test "$$(go env CGO_ENABLED)" = 1 && command -v "$$(go env CC)" >/dev/null && echo -race)

# make test TESTFLAGS='-run Lock -v'
TESTFLAGS ?=
# make bench SUITE=redis
SUITE     ?=
# make bench BENCHFLAGS='-rounds 9'
BENCHFLAGS ?=
# make faults FAULTFLAGS='-run queue-'
FAULTFLAGS ?=

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: work
work: ## a workspace of all modules, where there is none: a published tree has none
	@[ -e go.work ] || .ci/work

.PHONY: deps
deps: work ## install what the tests need, where it may; no service is left running
	@.ci/deps

# What it sends is recorded in service/testdata, so CI needs no OpenTofu
TOFU = github.com/opentofu/opentofu@v1.12.6

.PHONY: tofu
tofu: ## build OpenTofu (6 minutes of CPU or more), and run the live tests of its lock
	@mkdir -p .deps/bin
	GOWORK=off go mod download -json $(TOFU) >.deps/tofu.json
	GOWORK=off go -C "$$(sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p' .deps/tofu.json)" build -o "$(CURDIR)/.deps/bin/tofu" ./cmd/tofu
	go test -count=1 -tags tofu -run Tofu ./service

# Tests mostly wait for real servers, so more packages run at once than there are processors.
# -short makes the slow ones smaller. A few are left out with it, unless LEASEHOLD_REQUIRE=all.
SHORT     ?= -short -p 3 -parallel 8

# What tests write may be in memory; what go builds stays where it was.
.PHONY: test
test: ## every test, the slow ones smaller; never installs; LEASEHOLD_REQUIRE=all makes what is missing a failure
	@.ci/deps check
	@if [ -z "$(RACE)" ]; then \
		echo "MISSING: a C compiler: the race detector is SKIPPED; run 'make deps'" >&2; \
		[ "$$LEASEHOLD_REQUIRE" != all ]; \
	fi
	@memory=$$(.ci/memory) && \
		export GOTMPDIR="$${GOTMPDIR:-$${TMPDIR:-/tmp}}" TMPDIR="$${TMPDIR:-$${memory:-/tmp}}" && \
		$(MAKE) --no-print-directory -j 2 test-raced test-unraced

# The detector waits at the end of each process for races that threads may still report: a second
# for every package and every child. Tests leave no goroutine behind, so little is left to wait for.
.PHONY: test-raced
test-raced: export GORACE ?= atexit_sleep_ms=50
test-raced:
	@echo "$(words $(raced)) packages: go test $(RACE) $(SHORT) $(TESTFLAGS)"
	@go test -timeout 20m $(RACE) $(SHORT) $(TESTFLAGS) $(raced)

.PHONY: test-unraced
test-unraced:
	@echo "$(words $(unraced)) packages: go test $(SHORT) $(TESTFLAGS)"
	@go test -timeout 20m $(SHORT) $(TESTFLAGS) $(unraced)

.PHONY: test-long
test-long: ## every test in full size: before a release, and at night
	@$(MAKE) test SHORT=

# make explore DEEP=100 SEEDS=1000000
DEEP      ?= 20
SEEDS     ?= 100000

.PHONY: explore
explore: ## every order of everything in the client's half, far deeper than 'make test' looks
	go test -count=1 -timeout 0 -v -run 'TestExplore|TestSeeds' ./internal/claims -explore.deep $(DEEP) -seeds $(SEEDS)

# make simulate SIZE=10
SIZE      ?= 100
SIMSEEDS  ?= 2000

.PHONY: simulate
simulate: ## 10,000 clients on one queue, a million leases, a fleet under all faults: in virtual time
	go test -count=1 -timeout 0 -v -run 'TestSeeds|TestMany|TestAFleet' ./internal/sim -sim.size $(SIZE) -sim.seeds $(SIMSEEDS)

.PHONY: broken
broken: ## torture every lock that is broken on purpose, for 2 minutes at most each
	go test -count=1 -timeout 0 -v -parallel 6 -run 'TestBrokenLocks|TestTheRightLock|TestWhatATrialSays' ./torture -broken.all -broken.right 2m
	go test -count=1 -timeout 0 -v -parallel 6 -run 'TestTorture' ./cmd/leasehold/internal/handwritten -broken.all -broken.right 2m

# make peers PEERFLAGS='-only redsync -faults stop'
PEERFLAGS ?= -write docs/torture.md

.PHONY: peers
peers: ## torture the locks of other libraries beside ours: writes a table of docs/torture.md, in half an hour
	go run ./lab/peers $(PEERFLAGS)

.PHONY: cycles
cycles: ## 1,000 deadlocks between processes on each engine, and 100,000 waits that are none
	go test -count=1 -timeout 0 -v -run 'Cycle' ./engines -cycles 1000 -cycles.unlucky 240 -cycles.waits 100000 -cycles.timed

# make answers CALLS=1000000
CALLS     ?= 100000

.PHONY: answers
answers: ## 100,000 calls of several clients to each engine, and an order of them that explains every answer
	go test -count=1 -timeout 0 -v -run 'Answers' ./lab/answers -answers.calls $(CALLS)

.PHONY: model
model: ## every schedule of the tokens on N masters, in small worlds, to the last state
	go test -count=1 -timeout 0 -v ./engine/redis/redlock/model -model.states 0

.PHONY: check
check: fmt-check vet lint prose dependencies test ## what to run before a commit

# make publish-as MODULE=example.com/locks/leasehold VERSION=v0.9.0 OUT=/tmp/leasehold
.PHONY: publish-as
publish-as: ## write this tree as it is published under a public path, with its tags
	go run ./lab/publish -module "$(MODULE)" -version "$(VERSION)" -out "$(OUT)"

.PHONY: stranger
stranger: ## publish this tree to a module proxy of files, and get it as a stranger does
	go test -count=1 -v -run Stranger ./lab/publish -stranger

# make dist VERSION=v0.9.0 OUT=/tmp/leasehold-v0.9.0
DISTFLAGS ?= -dist.whole -dist.fresh

.PHONY: dist
dist: ## archives, .deb, .rpm, a container image, checksums and bills of material of one version
	GOWORK=off go -C lab/dist run . -version "$(VERSION)" -out "$(abspath $(OUT))"

.PHONY: dist-test
dist-test: ## build a release twice, each compiled anew, compare, install and run it (DISTFLAGS= for this machine's alone, as CI does)
	GOWORK=off go -C lab/dist vet ./...
	@[ ! -x .deps/bin/staticcheck ] || (cd lab/dist && GOWORK=off ../../.deps/bin/staticcheck ./...)
	GOWORK=off go -C lab/dist test -count=1 -timeout 60m ./... $(DISTFLAGS)

# make rolling OLDER=v0.9.0
OLDER     ?=

.PHONY: rolling
rolling: ## an older commit and this one share locks on each store; by default the newest release, or 100 commits ago
	go test -count=1 -timeout 20m -v -run TestTwoVersionsShareALock ./lab/formats -rolling -rolling.commit "$(OLDER)"

.PHONY: vulnerabilities
vulnerabilities: work ## govulncheck, every module; skipped aloud where its database cannot be reached
	@.ci/vulnerabilities

# make api-since SINCE=v0.9.0
SINCE     ?=

.PHONY: api-since
api-since: ## what the exported API of each module has lost or changed since a version, by apidiff
	@.ci/api-since "$(SINCE)"

.PHONY: vet
vet: ## go vet, every module
	go vet work

# Modules ask for the older of the two releases of Go that docs/compatibility.md names, and all
# else runs with that one. The go command fetches this one as it fetches a module. Where it cannot,
# that alone is no failure, as with the database of vulnerabilities: a build may have no network.
NEWEST    ?= go1.27.3
NEWESTVET ?= work

.PHONY: newest
newest: ## go vet, and tests that need no server, with the newer Go; skipped aloud where it cannot be had
	@if ! GOTOOLCHAIN=$(NEWEST) go version; then \
		echo "MISSING: $(NEWEST): vet and tests with the newer Go are SKIPPED" >&2; \
	else \
		export GOTOOLCHAIN=$(NEWEST); \
		go vet $(NEWESTVET) && go test -short . ./internal/... ./engine/queue ./engine/memlock ./engine/filelock/...; \
	fi

.PHONY: lint
lint: ## staticcheck, every module (make deps builds it)
	@[ -x .deps/bin/staticcheck ] || { echo "no staticcheck: run 'make deps'" >&2; exit 1; }
	.deps/bin/staticcheck $(call packages,$(MODULES))

.PHONY: fmt
fmt: ## gofmt, every file
	gofmt -w $$(git ls-files -- '*.go')

.PHONY: fmt-check
fmt-check: ## fail if gofmt would change a file
	@files=$$(gofmt -l $$(git ls-files -- '*.go')); [ -z "$$files" ] || { echo "gofmt: $$files" >&2; exit 1; }

.PHONY: modules
modules: ## each module as its users build it, without go.work; and go.work.sum, where it is committed, is complete
	@failed=; for dir in $(MODULES); do \
		echo "GOWORK=off: $$(GOWORK=off go -C $$dir list -m)"; \
		.ci/alone $$dir sh -ec 'go build ./...; go vet ./...; GOWORK=off go mod tidy $$MODFILE -diff' || failed=1; \
	done; \
	if git ls-files --error-unmatch go.work.sum >/dev/null 2>&1; then \
		before=$$(cat go.work.sum); go list -m all >/dev/null; \
		[ "$$before" = "$$(cat go.work.sum)" ] || { echo "go.work.sum lacked something: commit it as it is now" >&2; failed=1; }; \
	fi; \
	[ -z "$$failed" ]

.PHONY: cross
cross: ## go vet for macOS and Windows, but for what drives Linux: the benchmark and the soak; for FreeBSD the library and the command line
	@failed=; for os in darwin windows; do \
		echo "GOOS=$$os"; \
		export GOOS=$$os CGO_ENABLED=0; go vet $$(go list work | grep -Ev '/lab/(bench|soak)') || failed=1; \
	done; \
	echo "GOOS=freebsd"; GOOS=freebsd CGO_ENABLED=0 go vet ./... ./cmd/leasehold/... || failed=1; \
	[ -z "$$failed" ]

.PHONY: dependencies
dependencies: ## compare every go.mod with docs/dependencies.txt
	go run ./lab/dependencies

.PHONY: verify
verify: ## what was downloaded is what go.sum says, for what builds a release too
	go mod verify
	@export GOWORK=off; for dir in lab/dist lab/tools; do go -C $$dir mod verify || exit 1; done

.PHONY: api
api: ## write what each module exports into api/; a test compares
	go run ./lab/api -update

.PHONY: prose
prose: ## what is hard to read in pages, godoc, help and errors
	go run ./lab/prose

.PHONY: readme
readme: ## run every shell block of README.md, in both languages, in a clean clone of the last commit
	go run ./lab/readme
	go run ./lab/readme -skip 'make deps test' README.zh-CN.md

.PHONY: faults
faults: ## plant each fault of lab/faults/patches; fail if a test does not see it
	go run ./lab/faults $(FAULTFLAGS)

.PHONY: bench
bench: ## competitors side by side, with targets; SUITE=redis for one suite
	go run ./lab/bench $(if $(SUITE),-suite $(SUITE)) $(BENCHFLAGS)

.PHONY: bench-quick
bench-quick: ## the same in two minutes
	go run ./lab/bench -quick $(if $(SUITE),-suite $(SUITE)) $(BENCHFLAGS)

.PHONY: bench-self-test
bench-self-test: ## show that the benchmark notices what it must
	go run ./lab/bench -self-test

.PHONY: failures
failures: ## every fault to every engine: writes docs/failures.md, in a few minutes
	go run ./lab/bench/failures -write docs/failures.md

# make soak SOAK=3m SOAKFLAGS='-only redlock'
SOAK      ?= 8h
SOAKFLAGS ?=

.PHONY: soak
soak: ## every engine in turn on private servers, under every fault, for 8 hours; SOAK=1h for less
	go run ./lab/soak -for $(SOAK) $(SOAKFLAGS)

# make strikes STRIKES=400 STRIKEFLAGS='-only pglock -faults restart'
STRIKES   ?= 300

.PHONY: strikes
strikes: ## one fault at a time to every engine, until each has struck 300 leases: writes a table of docs/torture.md, and goes on where the last run ended
	go run ./lab/soak -strikes $(STRIKES) -clients 2 -out strikes -results lab/soak/strikes.jsonl -write docs/torture.md $(STRIKEFLAGS)

.PHONY: crossover
crossover: ## optimistic or locked: measures and writes docs/choosing.md
	go run ./lab/bench/crossover -write docs/choosing.md

.PHONY: growth
growth: ## does a lock become slower with use: measures and writes docs/growth.md
	go run ./lab/bench/growth -write docs/growth.md

.PHONY: pictures
pictures: ## draw the pictures of the pages: writes docs/pictures
	go run ./lab/pictures

.PHONY: pictures-monitoring
pictures-monitoring: ## what a real Prometheus shows of a lock whose engine is stopped, for docs/monitoring.md; needs chromium
	go run ./lab/monitoring -write docs/plots/monitoring.png

.PHONY: pictures-ui
pictures-ui: ## what a browser shows of the dashboard, for docs/dashboard.md; needs chromium
	go run ./lab/ui -write docs/pictures

.PHONY: recordings
recordings: ## play every demo, record what it prints, and draw the pictures from that
	go run ./lab/pictures -record

.PHONY: guarantees
guarantees: ## measure every engine and write docs/guarantees
	LEASEHOLD_GUARANTEES=$(ROOT)/docs/guarantees go test -count=1 -run Conformance ./engine/... ./engine/redis/... ./engine/zookeeper/... ./engine/etcd/... ./engine/mysql/... ./engine/postgres/...
	go run ./engine/enginetest/table

.PHONY: ci
ci: ## everything, as CI does it
	.ci/run

# What can be done with this repository. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO ?= go
# The packages that a target works on, and further arguments for go test.
PKG ?= ./...
ARGS ?=
FUZZTIME ?= 30s
BENCHTIME ?= 1s
# The parts that bench measures, by commas; all of them without.
PART ?=
# How often race runs the tests.
COUNT ?= 5
# How long chaos goes on, and its seed: the same faults in the same order. Without
# one each run has another.
DURATION ?= 60s
SEED ?=
# How long each stress test goes on, and how many random schedules it has for
# each lock service.
STRESS ?= 5m
SCHEDULES ?= 1000

# The version in the program is the one that Go reads from git, if it can.
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
# The race detector needs a C compiler; without one tests run without it.
RACE := $(if $(shell command -v "$$($(GO) env CC)"),-race)
GOLANGCI_LINT_VERSION := v2.12.2
GOLANGCI_LINT := .bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
# A checkout's own: the shared cache remembers findings by the path of another
# checkout, where this one's exclusions do not match.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.bin/cache/golangci-lint

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	echo
	echo '  PKG=./locks/... ARGS="-run TestX -v" narrow what test and race run.'

.PHONY: build
build: ## build .bin/fenceproxy
	@mkdir -p .bin
	$(GO) build -trimpath -buildvcs=$(VCS) -o .bin/fenceproxy ./cmd/fenceproxy

.PHONY: servers
servers: ## install or build the servers and clients that tests need
	@echo 'servers (into .bin, or by apt):'
	cd tools && $(GO) run ./servers

.PHONY: servers-all
servers-all: ## the same, with every supported version of Postgres
	@echo 'servers (into .bin, or by apt):'
	cd tools && $(GO) run ./servers -for test-pg-all

.PHONY: demo
demo: build ## see a late write of an old lock holder, let through and refused
	@echo 'what the demo starts (into .bin):'
	(cd tools && $(GO) run ./servers -for demo)
	.bin/fenceproxy demo $(ARGS)

.PHONY: test
test: servers ## run the tests, with the race detector; a missing server fails them
	FENCE_TEST_REQUIRE=1 $(GO) test -timeout 30m $(RACE) $(ARGS) $(PKG)

.PHONY: test-pg-all
test-pg-all: servers-all ## run the tests on PostgreSQL 14 to 18
	FENCE_TEST_REQUIRE=1 FENCE_TEST_POSTGRES_VERSIONS=14,15,16,17,18 $(GO) test -timeout 30m $(RACE) $(ARGS) $(PKG)

.PHONY: test-docker
test-docker: servers ## run the tests of stores and locks on servers in containers, of the public images
	@docker version >/dev/null || { echo 'no Docker engine answers: CONTRIBUTING.md, Containers' >&2; exit 1; }
	FENCE_TEST_DOCKER=1 FENCE_TEST_REQUIRE=1 $(GO) test -count 1 -timeout 30m $(RACE) $(ARGS) ./internal/testenv ./stores/... ./locks/...

.PHONY: race
race: servers ## run the tests COUNT times, on 1 and on 4 threads, to find what fails rarely
	FENCE_TEST_REQUIRE=1 $(GO) test -timeout 60m -race -count $(COUNT) -cpu 1,4 $(ARGS) $(PKG)

.PHONY: fuzz
fuzz: servers ## fuzz every Fuzz function for FUZZTIME
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do
	  for target in $$(grep -o '^func Fuzz[A-Za-z0-9_]*' "$$file" | cut -d ' ' -f 2); do
	    echo "$$(dirname "$$file") $$target"
	    FENCE_TEST_REQUIRE=1 $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $(ARGS) "$$(dirname "$$file")"
	  done
	done

.PHONY: bench
bench: servers build ## measure it beside others, write docs/benchmarks.md; PART=s3proxy a part, ARGS=-quick to try
	@cd test/bench
	$(GO) build -o ../../.bin/bench .
	cd ../..
	.bin/bench -part '$(PART)' $(ARGS)

.PHONY: bench-go
bench-go: servers ## run the benchmarks that stand beside the code, BENCHTIME each
	FENCE_TEST_REQUIRE=1 $(GO) test -timeout 60m -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(ARGS) \
	  $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)

.PHONY: chaos
chaos: servers ## faults against all of it for DURATION, from SEED; a control group and planted bugs that must be found
	@mkdir -p .bin/chaos
	FENCE_TEST_REQUIRE=1 FENCE_CHAOS=$(DURATION) FENCE_CHAOS_SEED=$(SEED) $(GO) test -timeout 0 -count 1 -v \
	  -artifacts -outputdir $(CURDIR)/.bin/chaos -run '^Test(Chaos|ControlGroup|PlantedBugs)$$' $(ARGS) ./test/chaos

.PHONY: soak
soak: DURATION = 2h
soak: servers ## steady fenced work for DURATION (2h), from SEED; a table in .bin/soak of what grows
	@mkdir -p .bin/soak
	FENCE_TEST_REQUIRE=1 FENCE_SOAK=$(DURATION) FENCE_SOAK_SEED=$(SEED) $(GO) test -timeout 0 -count 1 -v \
	  -artifacts -outputdir $(CURDIR)/.bin/soak -run '^TestSoak$$' $(ARGS) ./test/soak

.PHONY: stress
stress: servers ## run the stress tests for STRESS, and SCHEDULES of each lock service
	FENCE_TEST_REQUIRE=1 FENCE_CHAOS=$(STRESS) $(GO) test -timeout 0 -count 1 -v $(RACE) $(ARGS) -run Stress ./test/...
	FENCE_TEST_REQUIRE=1 FENCE_LOCK_SCHEDULES=$(SCHEDULES) $(GO) test -timeout 0 -count 1 -v $(RACE) $(ARGS) -run '^TestConformance/schedules' ./locks/...

.PHONY: pg-regress
pg-regress: servers build ## run PostgreSQL's own suites, and pgx's, through the proxy
	@test/regress/run

.PHONY: s3-suite
s3-suite: servers build ## run versitygw's own tests of S3 through the proxy
	@test/s3suite/run

.PHONY: lint
lint: $(GOLANGCI_LINT) ## run the linters, and see that go.mod, the format and docs/benchmarks.md are right
	$(GO) vet ./...
	$(GOLANGCI_LINT) run --allow-parallel-runners
	$(GOLANGCI_LINT) fmt --diff
	$(GO) mod tidy -diff
	$(GO) mod verify
	cd tools
	$(GO) vet ./...
	../$(GOLANGCI_LINT) run --allow-parallel-runners --config ../.golangci.yaml
	$(GO) mod tidy -diff
	cd ../test/bench
	$(GO) vet ./...
	$(GO) test ./page ./results
	../../$(GOLANGCI_LINT) run --allow-parallel-runners --config ../../.golangci.yaml
	$(GO) mod tidy -diff
	cd ../s3clients/sdks
	$(GO) vet ./...
	../../../$(GOLANGCI_LINT) run --allow-parallel-runners --config ../../../.golangci.yaml
	$(GO) mod tidy -diff

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code (gofumpt) and tidy go.mod
	$(GOLANGCI_LINT) fmt
	$(GO) mod tidy
	cd test/bench
	$(GO) mod tidy
	cd ../s3clients/sdks
	$(GO) mod tidy

$(GOLANGCI_LINT):
	@echo 'golangci-lint $(GOLANGCI_LINT_VERSION): builds it, about 3 minutes the first time'
	mkdir -p .bin
	work=$$(mktemp -d "$(CURDIR)/.bin/lint-XXXXXX")
	trap 'rm -rf "$$work"' EXIT
	GOBIN="$$work" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv "$$work/golangci-lint" $@

# The project's own commands. `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

GO        ?= go
BIN       := bin
FUZZTIME  ?= 10s
BENCHTIME ?= 1s
BENCHCOUNT ?= 1
BENCHPKGS ?= ./...
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
SOAKTIME  ?= 10m
WIREFLAGS ?= -repeat 7 -max-foreign 0.12 -wait-quiet 10s
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help build demo demo-speech test soak bench bench-compare bench-wire fuzz lint readme clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

build: ## build the two commands into bin/
	$(GO) build -o $(BIN)/ ./cmd/bifaci ./cmd/pipe-cartridge

demo: build ## transcribe freshly drawn tone signals while they are still arriving
	$(GO) run ./internal/demo -bifaci $(BIN)/bifaci -cartridge $(BIN)/pipe-cartridge

demo-speech: build ## install the speech packages and transcribe recorded human speech
	scripts/demo-speech $(BIN)

test: ## run every test, with the race detector, and hold their names against the rules and docs/conformance.md
	$(GO) vet ./...
	$(GO) test -race -shuffle=on -timeout 25m -json ./... | $(GO) run ./internal/conformance

soak: ## ten minutes of mixed load, floods of 1 GiB of each frame type, a thousand rounds of start and kill
	PIPE_SOAK=$(SOAKTIME) PIPE_FLOOD_MIB=1024 PIPE_SOAK_ROUNDS=1000 $(GO) test -count=1 -timeout 2h -v -run '^(TestSoak|TestFloods|TestRounds)$$' ./test/process

bench: ## run the benchmarks, BENCHCOUNT times each, and sum them up with benchstat
	@mkdir -p $(BIN)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) $(BENCHPKGS) | tee $(BIN)/bench.txt
	$(GO) run $(BENCHSTAT) $(BIN)/bench.txt

bench-compare: ## compare the benchmarks of BENCHPKGS with those of the revision BASE
	@test -n "$(BASE)" || { echo "usage: make bench-compare BASE=rev [BENCHPKGS=./bench]"; exit 2; }
	scripts/bench-compare '$(BASE)' '$(BENCHTIME)' '$(BENCHCOUNT)' '$(BENCHSTAT)' $(BENCHPKGS)

bench-wire: ## drive the probe cartridge and the null cartridge in turns, and print the table of docs/performance.md
	$(GO) build -o $(BIN)/ ./bench/wiredriver ./bench/wiredriver/nullcartridge ./test/probecartridge
	$(BIN)/wiredriver -table -json $(BIN)/bench-wire-$$(date -u +%Y%m%dT%H%M%SZ).jsonl $(WIREFLAGS) \
		-bin null=$(BIN)/nullcartridge,skip=stall -bin ours=$(BIN)/probecartridge

fuzz: ## run each fuzz target for FUZZTIME
	scripts/fuzz $(FUZZTIME)

lint: ## gofmt, vet for three systems, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt wants the files above"; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

readme: ## run the commands of the README and compare the code it quotes
	scripts/readme

clean: ## remove what build made
	rm -rf $(BIN)

# Only Go and make are needed to run, build and test. `make lint` builds its
# linter into .bin, and `make proto` needs protoc; nothing else does.

LINTER   := v2.15.0
LINT     := .bin/golangci-lint-$(LINTER)
PKGS     ?= ./...
BENCH    ?= .
COUNT    ?= 6
FUZZ     ?= .
FUZZTIME ?= 10s
N        ?= 1000
SEED     ?= 1

# Property tests draw the same cases in each run, so that a run fails for what has changed.
export RAPID_SEED ?= 1
# Without debug information, compiling takes a seventh less time.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

.DEFAULT_GOAL := help

help: ## list what make can do
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## watch five hosts share one limit; FOR=20s ends by itself, ARGS adds flags
	@go run ./cmd/headgate-lab demo $(if $(FOR),--for $(FOR)) $(ARGS)

test: ## run all tests and say what was skipped; PKGS=./limiter/... runs fewer, LONG=1 the long form that CI runs
	@$(if $(LONG),HEADGATE_LONG=1) go run ./internal/gotest $(if $(filter ./...,$(PKGS)),-beside internal/browsertest) $(PKGS)

pictures: ## open the pages for operators in Chromium, and write the pictures of docs/operators.md
	@cd internal/browsertest && go test -count=1 -run Pictures . -args -update

race: ## run the tests under the race detector, the long ones shortened
	@go run ./internal/gotest -race -short $(PKGS)

check: ## the quick gate before a commit: format, vet, imports, docs, short tests
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:" $$unformatted; exit 1; fi
	@if [ -x $(LINT) ]; then $(LINT) fmt --diff; else echo "gofumpt and gci are not checked: make lint builds them"; fi
	@go vet ./...
	@go run ./internal/gotest -short ./...

lint: $(LINT) ## all linters, and whether go.mod is tidy; the first run builds the linter
	@$(LINT) run ./...
	@go mod tidy -diff

$(LINT):
	@echo "building golangci-lint $(LINTER) into .bin, once; it takes some minutes"
	@GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTER)
	@mv .bin/golangci-lint $@

bench: ## beside other limiters, COUNT=6 rounds, the goals into docs/performance.md; BENCH=Ring or QUICK=1 prints only
	@cd bench && go run ./report -count $(COUNT) -bench '$(BENCH)' $(if $(QUICK),-quick) $(if $(PAIRS),-pairs $(PAIRS))

costs: ## write anew what allocations, bytes and instructions operations cost, where it changed
	@go test -count=1 ./internal/costs -update
	@git --no-pager diff -U0 -- internal/costs/testdata

sim: ## simulate all scenarios with 20 seeds, into the tables and pictures of docs/accuracy.md; ONLY=auto these rows, PART=asking this table
	@go run ./internal/sim/simdocs $(if $(SEEDS),-seeds $(SEEDS))$(if $(ONLY), -only $(ONLY))$(if $(PART), -part $(PART))

swarm: ## N=1000 random clusters, drawn by SEED=1, held to the laws of docs/design/0010-swarm.md
	@go test -count=1 -timeout 0 ./internal/sim/swarm -clusters $(N) -rapid.seed $(SEED)

release: ## programs, archives, Debian packages, an image, lists of what is in them and checksums, into dist
	@cd internal/release && go run . -root ../.. -out ../../dist

chaos: ## daemons die, end and restart under load, KILLS=50 times in each cluster, OLD=a release is upgraded, and other faults, into docs/reliability.md: 40 minutes
	@old=$$(mktemp -d) && git archive $(or $(OLD),$$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~100)) | tar -x -C $$old && (cd $$old && go build -o headgate ./cmd/headgate) && \
	go test -count=1 -timeout 0 -v ./cmd/headgate -run 'TestOwnersDie|TestARolling|TestKeysOfALostOwner|TestFaults$$' -kills $(or $(KILLS),50) -from $$old/headgate -strict -update; \
	status=$$?; rm -rf $$old; exit $$status

soak: ## three daemons under load for FOR=20m: memory, goroutines and files stay as they are, nothing is logged as an error
	@go test -count=1 -timeout 0 -v ./cmd/headgate -run 'TestASoak$$' -soak $(or $(FOR),20m)

scale: ## what a whole node costs, and how it grows, into the tables of docs/scale.md; PART=node, asks or growth these tables
	@go run ./internal/nodeload/scale -docs docs$(if $(PART), -part $(PART))

fuzz: ## every fuzz test for FUZZTIME=10s each, or 20000x; FUZZ=Bucket runs some
	@sh scripts/fuzz.sh '$(FUZZ)' '$(FUZZTIME)'

golden: ## write the golden files anew; look at the diff before you commit it
	@for dir in $$(grep -rl --include='*_test.go' 'flag\.Bool("update"' . | sed 's|/[^/]*$$||' | sort -u); do \
		go test -count=1 "$$dir" -update || exit 1; done

proto: ## generate the code of rpc/headgatepb; needs protoc
	@rpc/headgatepb/generate.sh

cover: ## test coverage of the whole, by function, into cover.out
	@go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1
	@echo "by line: go tool cover -html=cover.out"

.PHONY: help run test pictures race check lint bench costs sim swarm chaos soak release scale fuzz golden proto cover

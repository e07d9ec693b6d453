// SPDX-License-Identifier: Apache-2.0

// Package bench measures headgate beside what people use today, in one binary
// and one process: a time alone says more about the machine than about the
// code. `make bench` in the folder above runs it and writes
// docs/performance.md; one case by hand, in this folder:
//
//	go test -run '^$' -bench Decision -benchmem -cpu 2
//
// It is a module of its own, so that nothing of the peers enters headgate's
// go.mod:
//
//   - golang.org/x/time/rate, bare and in maps of limiters by key
//   - go.uber.org/ratelimit
//   - github.com/failsafe-go/failsafe-go/ratelimiter
//   - github.com/alibaba/sentinel-golang
//   - Cadence's collection, algorithm and wire format of global rate limits,
//     with its own dynamic config read from a file, and its metrics off
//     (headgate's are on)
//   - github.com/uber/ringpop-go/hashring
//   - plain protobuf messages of the wire's fields, in package plainpb
//
// A name is a path of case=value; the last, by=, says whose code runs:
// request-weighted and elastic are headgate's, by algorithm. With mode=parallel
// there is a goroutine for each processor, and ns/op is wall time: half of
// serial would be perfect on two.
//
// Sizes do not depend on flags, but for -short, which has tiny ones to see
// that everything runs, and -pairs, which leaves out what takes too much
// memory.
//
// Out of scope: how well limits are shared (docs/accuracy.md), and what the
// network costs.
package bench

// SPDX-License-Identifier: Apache-2.0

// Package costs measures what operations of headgate cost in figures that do
// not depend on time, and so not on the machine or on who else uses it:
//
//	allocs        allocations
//	bytes         bytes that they take
//	wire          bytes of a message
//	heap          bytes that stay on the heap
//	instructions  of the processor, counted by callgrind
//
// All are per unit: a call, a key, or a key of a host. A test holds them
// against testdata/costs.golden:
//
//	go test ./internal/costs            # did anything get dearer?
//	go test ./internal/costs -update    # it is meant: write the file anew
//
// A figure fails when it is worse than the file says by more than its kind's
// tolerance, and also when it is better, so that the file stays true and the
// next one who makes it worse is told. A figure that does not hold is measured
// twice more, in processes of their own, and the median counts. An update
// leaves the figures that hold: many small steps do not add up unseen.
//
// To watch another operation, add it to operations in the tests.
//
// # How instructions are counted
//
// The test starts itself again under valgrind for each operation, which then
// sets up and runs a batch of them between two calls of [Mark]. Callgrind
// dumps its counters there, for each thread, and the operation's thread cannot
// be taken for anything else. Of several batches the cheapest counts: the
// scheduler can only add. There is one processor and no garbage collection,
// and the optional features of the CPU are set by hand, since Go would choose
// other code on another machine.
//
// What instructions do not show are caches, branches and locks: see the
// benchmarks for those. Counts differ between releases of Go, so they are
// compared only with the one that is recorded with them. In CI any other is a
// failure, elsewhere a loud skip.
//
// The package does not know what the operations mean.
package costs

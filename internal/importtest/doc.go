// SPDX-License-Identifier: Apache-2.0

// Package importtest keeps the shape of the source tree: who may import
// whom, where heavy libraries may appear, and what each file must say.
//
//	limiter ──▶ rpc ◀── aggregator ──▶ algorithm
//	   │                    │
//	   └──▶ dynamicconfig ◀─┘        ringpop: on its own
//
// A host that limits never links an algorithm, a host that decides never
// links a limiter, and neither links a transport that its service does not
// use. That holds only as long as no import breaks it, so a test reads all:
//
//	problems, err := importtest.Check(os.DirFS("../.."))
//	for _, p := range problems {
//		t.Error(p) // limiter/group.go:7: imports …/algorithm: limiting hosts …
//	}
//
// Files are parsed, go list is not asked: the go command knows which files a
// test opened and runs it again when one of them changed, but knows nothing
// of what another process read, and would show an old result.
//
// Tests may import what they like: no program links them. Out of scope: what
// linters see, and whether links and examples in documents hold (docstest).
package importtest

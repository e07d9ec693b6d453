// SPDX-License-Identifier: Apache-2.0

// Package docstest keeps the documents true. It reads README.md and every
// other .md file of the repository, and fails when
//
//   - a command in a sh or console fence is one that nothing runs: make
//     targets must exist, headgate's subcommands and flags must be in its
//     --help, and any other command must be in a table with who runs it;
//   - Go code in a fence does not compile, or a test in it fails;
//   - code that a page takes from a file is not in that file;
//   - README's program does not run, answer and stop;
//   - docs/metrics.md does not have exactly the metrics that the code has;
//   - YAML in a fence that has limits is no valid configuration;
//   - a link leads to no file, or to no heading of it.
//
// A Go fence may be a whole file, declarations, or statements. What it needs
// but should not show goes into a comment just above the fence, which
// readers of the page do not see:
//
//	<!-- given: var group *limiter.Group; var ctx context.Context -->
//	```go
//	if err := group.For("frontend:orders").Wait(ctx); err != nil {
//		return err
//	}
//	```
//
// Code that is part of a file names the file, from the page's folder:
//
//	<!-- from: ../examples/migrate/main.go -->
//
// Packages of this module and the common ones of the standard library are
// imported by their names. A fence that is not meant to compile is a text
// fence.
package docstest

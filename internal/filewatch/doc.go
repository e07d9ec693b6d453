// SPDX-License-Identifier: Apache-2.0

// Package filewatch follows files that change: rules, members, certificates, passwords.
//
//	filewatch.Files(ctx, []string{path}, filewatch.Options{}, func() (again bool) {
//		text, err := filewatch.Read(path, maxBytes)
//		…
//	})
//
// It follows all the ways in which files change: written in place, replaced by a rename
// as editors and `sed -i` do, deleted and made again, and behind links that are
// retargeted, at any hop of a chain of links, as Kubernetes does for a ConfigMap.
// Notifications make it prompt. In case they are lost or the file system has none, it
// compares the times and sizes of the files twice a second, and a slow poll reads them.
//
//	notification ─┐
//	glance, poll ─┴─▶ quiet for Settle ─▶ look ─▶ again? ─▶ quiet for Settle ─▶ look …
//
// Read returns no half of a file: while a process has it open for writing, Read says so,
// where the system can say so (Linux, for a file that this process owns). Elsewhere a
// writer that stops half-way for longer than Settle is read half-way: write a new file
// and rename it.
//
// Out of scope: what is in the files.
package filewatch

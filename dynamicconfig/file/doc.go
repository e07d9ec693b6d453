// SPDX-License-Identifier: Apache-2.0

// Package file is a configuration source that is one YAML file, or a folder of
// them, read again whenever it changes.
//
//	source := file.New("/etc/headgate/limits.yaml")
//	snapshot, err := source.Load(ctx) // fails when it is missing or broken
//	...
//	live := dynamicconfig.NewLive(snapshot)
//	go live.Run(ctx, source, logger)
//
// It follows all the ways in which files change: written in place, replaced
// by a rename as editors and `sed -i` do, deleted and made again, behind
// symlinks that are retargeted as Kubernetes does for a ConfigMap, and the
// directory itself replaced. Notifications make it prompt; a slow poll
// compares the content, in case they are lost or the file system has none.
//
//	notification ─┐
//	poll ─────────┴─▶ settle 50 ms ─▶ read, hash ─▶ changed? ─▶ parse ─▶ update
//	                                                               │ broken or gone
//	                                                               └─▶ read once more first
//
// A writer that stops half-way for longer than that may be read half-way:
// most such files are broken and refused, but to be safe, write a new file
// and rename it.
//
// Of a folder, all files whose names end in .yaml or .yml are one configuration, in the order
// of their names: see dynamicconfig.ParseFiles. Folders in it, and names that begin with a
// dot, are left out.
//
// Out of scope: several folders, and folders of folders. A Source is safe for concurrent use: one
// lock guards it.
package file

// SPDX-License-Identifier: Apache-2.0

// Package dynamicconfig holds what a cluster is configured with: the rules
// that give keys their limits, the cluster's own properties, and named
// values of services. All of it can change while traffic flows.
//
//	source := file.New("limits.yaml")
//	snapshot, err := source.Load(ctx) // strict: unknown fields, bad numbers … are errors
//	if err != nil {
//		return err // limits.yaml:7:12: … with the line and a caret
//	}
//	live := dynamicconfig.NewLive(snapshot)
//	go live.Run(ctx, source, logger) // follows the file; what is broken never replaces what is good
//	cancel := live.Subscribe(func(old, new *dynamicconfig.Snapshot) { … })
//
//	rule, ok := live.Current().Match("frontend:orders")
//	pageSize := dynamicconfig.Int(live, "orders.page_size", 100)
//	pageSize.Get()
//
// How it flows:
//
//	file, memory, database ─ Source ─▶ Snapshot ─▶ Live ─▶ Current, Subscribe
//	                                      ▲          └───▶ Property.Get
//	Parse (YAML), Config (code) ──────────┘ checked, defaults filled in
//
// A Snapshot is immutable: to get several answers that fit each other, ask one
// Snapshot. docs/config.md is the reference of the file.
//
// The parts, each of which knows only those below it:
//
//	dynamicconfig            Snapshot, Live, Diff, Source, named values
//	internal/decode          a config file's fields
//	internal/compose         the file that says what a Snapshot does
//	internal/overlay         what overrides make of rules
//	internal/fingerprint     whether two configurations mean the same
//	internal/build           checks and defaults, for files and for code
//	rule                     what a rule, an override and a property are
//	internal/glob, quantity  patterns of keys, numbers with units
//	internal/strictyaml, render, message, brief, remedy, subscribers
//
// Out of scope: what an algorithm's name means (Snapshot.Check asks who
// knows), counting keys against max_keys, and storing configurations (package history).
package dynamicconfig

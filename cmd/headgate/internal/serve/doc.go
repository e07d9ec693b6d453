// SPDX-License-Identifier: Apache-2.0

// Package serve has the command serve, which runs a daemon: its flags, where else their values may
// come from, how it logs, and how soon it collects garbage. The command token makes a token for
// the file of serve --policy.
//
// The flags are the only list of the settings. A file of YAML and the environment may set each of
// them too: see settings.
//
// Out of scope: what a daemon does with its settings, and which of them fit together (package
// internal/daemon).
package serve

// SPDX-License-Identifier: Apache-2.0

// Package carried asks hosts that no host can call, because they listen nowhere: a question
// travels with the grants that answer a report, and the answer with a later report.
//
//	program ── Usage ─────────────▶ edge     a Board with an open question about a key
//	        ◀─ Grants, questions ──          of this report
//	        ── Usage, answers ─────▶         the Board keeps the answer for a minute
//
// An edge puts a Board before what answers reports, and a program puts a Program before its
// edge:
//
//	mux.Register(usage.ReportTypeURL, board.Before(forward))
//	…
//	board.Ask(now, "key", []byte("login:alice"))
//	answers := board.Answers(now, "key", []byte("login:alice"))
//
// Questions go only to programs that report their key, and only answers to open questions
// are kept, so that a program can neither learn of other keys nor fill the edge's memory.
// A program, or an edge, of an earlier release skips the fields, and nothing else changes.
//
// Out of scope: what questions and answers mean. A Board and a Program have a lock each.
package carried

// SPDX-License-Identifier: Apache-2.0

// Package report reports this host's usage to the owners of keys, and puts
// their grants in force.
//
//	parts ── counts ──▶ Round ──▶ Batch ──▶ owners
//	  ▲                                        │
//	  └──────── grants ◀── Apply ◀─────────────┘
//
// A Subject is one Part with the state of its reports. Most are in a
// regular Round once per interval. Under an algorithm that answers at any time
// a Subject also reports early: when its tokens run low, and when its demand
// has changed. Such a Subject is left out of a Round if there is nothing new to
// report. Early reports to one owner share messages: see package lanes.
//
//	round := reporter.Begin(now, false)
//	for _, s := range subjects {
//		round.Visit(s, hosts)
//	}
//	batches := round.Batches() // to send; then Apply, or Fail, and Done
//
// One lock, the Group's, guards a Reporter and its Subjects, but for what says
// that it is safe for concurrent use. Package loop keeps time.
//
// The package knows neither keys without a Part nor how a request is decided.
package report

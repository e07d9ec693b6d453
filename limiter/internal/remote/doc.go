// SPDX-License-Identifier: Apache-2.0

// Package remote is the stages whose tokens are elsewhere: at the key's owner,
// or in Redis.
//
//	Take ──▶ Remote.Do ──▶ answered: its outcome
//	                  └──▶ not answered: the host's part under the rule's
//	                       fallback decides, and what it lets through is
//	                       charged when the remote answers again
//	Settle ──▶ outbox ──▶ Remote.Do in the background, until it is answered
//
// A Stage asks for each event. An Auto asks only while the key's owner says
// so, and else decides by its grant.
//
// The package knows no transport, and not which keys there are. The Group's lock guards changes of a
// part; decisions use atomics, and take line.mu where a change is under way. Only a Hub starts goroutines.
package remote

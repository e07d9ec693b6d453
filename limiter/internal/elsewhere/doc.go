// SPDX-License-Identifier: Apache-2.0

// Package elsewhere is a host's view of one remote bucket: the charges and returns that the host
// has not sent yet (Outbox), how many tokens the bucket is estimated to have (Estimate), and until
// when another ask is known not to help (Refusal). Failures logs the calls that fail, of all remote
// buckets. The package calls a remote bucket only through Do, starts no goroutine, and knows no other
// bucket. It has no lock: its state is atomic, and Outbox.Begin lets one caller at a time send.
package elsewhere

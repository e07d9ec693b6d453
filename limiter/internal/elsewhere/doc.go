// SPDX-License-Identifier: Apache-2.0

// Package elsewhere is a host's view of one remote bucket: the charges and returns that the host
// has not sent yet (Outbox), how many tokens the bucket is estimated to have (Estimate), and until
// when another ask is known not to help (Refusal). Failures log the calls of all remote buckets that fail. The package asks nobody but through Do, starts
// no goroutine, and knows no other bucket. It has no lock: its state is atomic, and Outbox.Begin
// lets one caller at a time send.
package elsewhere

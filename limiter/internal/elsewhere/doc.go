// SPDX-License-Identifier: Apache-2.0

// Package elsewhere is what a host knows of a bucket elsewhere: what the host owes it, and
// how many tokens it is believed to have.
package elsewhere

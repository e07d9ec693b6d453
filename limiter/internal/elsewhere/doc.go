// SPDX-License-Identifier: Apache-2.0

// Package elsewhere is what a host knows of a bucket elsewhere: what the host owes it, how
// many tokens it is believed to have, and until when asking it does not help.
package elsewhere

// SPDX-License-Identifier: Apache-2.0

package edge

// Bucket is what is known of one key's bucket, without taking from it.
type Bucket struct {
	// Rule is the pattern that matches the key; empty if none does.
	Rule string

	// Algorithm is how the limit is shared.
	Algorithm string

	// Policy, Limit, Burst and Left are those of a Decision. For a bucket that is
	// not live they are the rule's, and it is full.
	Policy             Policy
	Limit, Burst, Left float64

	// Live: the key is in use on this host.
	Live bool

	// Fallback: the decider has not answered, and the rule's fallback rules.
	Fallback bool
}

// SPDX-License-Identifier: Apache-2.0

// Package client limits in programs that run no decider: the deciders are
// remote, daemons started with `headgate serve` or services that serve
// rpcgrpc. The limiters are the same as everywhere. They decide in memory; under
// auto, the default, they ask a decider for what this host's part does not cover,
// and under exact for each event. The program knows where some deciders are and
// which limits there are; any decider answers for any key.
//
//	c, err := client.New(client.Config{
//		Addresses: []string{"10.0.0.7:7934", "10.0.0.8:7934"},
//		Hosts:     20, // that share the limits, for when no decider answers
//	}, file.New("limits.yaml"))
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//
//	if !c.For("frontend:orders").Allow() {
//		return errTooManyRequests
//	}
//
// # Limits
//
// The limits come from a dynamicconfig.Source of the program's own, and must
// say the same as those of the deciders: a decider answers with a part of its
// limit, and the host takes that part of its own. While they differ, as when a
// new file has reached one and not yet the other, the limit is somewhere
// between both. Algorithms are not checked, because only deciders have them.
//
// # Exact keys
//
// Rules with `algorithm: exact` have one bucket at the key's owner, which is
// asked for each event by way of any decider: so the methods of such a key's
// limiter take a call, and events that come together share one. When the answer
// is not there in time (see Config.ExactTimeout), the rule's fallback decides;
// what it lets through is charged to the bucket when a decider answers again.
// Say `fallback: closed` where refusing is better than too much.
//
// # When no decider answers
//
// Grants live to the end of their lease, then the rule's fallback applies, as
// on any host. The default fallback, even, divides the limit by Config.Hosts.
// The program need not do anything, and no caller waits. One of several deciders that
// hangs is left out once its calls have timed out for a second. Deciders that are back
// are found within about two seconds, and asked with the next report.
//
// # What is linked
//
// gRPC and the limiter: no YARPC, no fx, no algorithm, no aggregator. It is
// below limiter because it is what a limiting host needs and nothing of
// what a deciding one does.
//
// Out of scope: owning keys (package headgate), and migrations from one algorithm to another,
// unless WithLimiter brings them. A Client is safe for concurrent use; its Group guards the keys.
package client

// SPDX-License-Identifier: Apache-2.0

// Package mesh gives every host the whole bucket of a key. Each host sends all
// other hosts what it used. Rules name the algorithm "gossip".
//
//	m := mesh.New(address, rules, mesh.Config{})
//	group := limiter.NewGroup(snapshot, hosts, limiter.WithRemote(mesh.Name, m))
//	mux.Register(meshusage.TypeURL, m) // receives
//	go m.Run(ctx, peers)               // sends
//	m.SetPeers(addresses)              // whenever the hosts change
//	m.Leave(ctx, peers)                // after Run, when the host stops
//
// A decision is made in memory. So each host may use all tokens of a key before
// it receives what the others used, one interval later. The buckets are then in
// debt, and no host gets a token until the debt is paid back:
//
//	         host A         host B         host C
//	now      4 of 4         4 of 4         4 of 4      each uses its 4
//	a round  4 − 4 − 8      −8             −8          all wait until 9 more are filled in
//
// # Messages
//
// Each interval ends a round. In it, a host sends each other host those keys
// that it used since that host last answered, with how much it used since it
// began to count. So a message that is lost, late or repeated does no harm. A
// host that knows nothing of a key starts with the tokens that are left at the
// first host that sends the key.
//
// A host that does not answer delays no other host: at most one message to each
// host is under way, and per round at most 64 hosts that did not answer last
// time are tried again.
//
// # Bounds
//
// Over a long time the limit holds. There are three exceptions:
//
//   - In one interval, n hosts may use n bursts, and n times what the limit
//     fills in. All of it is paid back.
//   - Hosts that cannot reach each other use the whole limit each. For each
//     host, a burst and what the limit fills in four intervals is paid back.
//   - A process that starts has full buckets until another host has sent it
//     what is left, up to two intervals and a message later. So r restarts may
//     admit r more bursts, and what the limit fills in for that time. Other
//     hosts pay them back as far as above.
//
// Messages that come late may leave one host in debt, while others use all that the limit fills
// in. So may those that a process receives first: what is left at one host includes what
// others used, who send it too. And hosts that start, or hear of another limit, at different
// times may have more than the others. If another host has more for four intervals, the host
// in debt gets that back and takes part again, but not more than
//
//   - what its full bucket had no room for while the messages were missing,
//   - what it lost when it started, also to a count that is older than its process,
//   - a burst and what the limit fills in four intervals for each other process that starts,
//     each change of the limit or burst, and a change of the limits, or the start of this process,
//     in the four intervals before the key began: hosts that have another algorithm still forget
//     what this one uses.
//
// At one time that is never more than the deepest debt: the last of these for each host. A host
// that goes on after a pause gets it back at once, and as much as its bucket had no room for. If it
// hears of a higher limit then, it also gets what came in more since the pause began: once for the
// highest limit, however often the limit changes.
// Where messages are lost, a host cannot tell its debt from what it has not heard yet, and more
// is given back: nine hosts exceed the limit by 1.2% if a third of the messages is lost.
//
// A host that stops without Leave never reports what it used in its last
// interval.
//
// # Out of scope
//
// Large clusters: the number of messages grows with the square of the number of
// hosts. Limits that must never be exceeded: see algorithm exact.
//
// One lock guards the members and what goes to them. Each sender, each bucket, and each shard of the
// table of buckets has a lock of its own.
package mesh

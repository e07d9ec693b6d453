// SPDX-License-Identifier: Apache-2.0

// Package gossip finds the hosts of a cluster, and whether they live, by
// gossip among them (hashicorp/memberlist):
//
//	members, err := gossip.New(gossip.Config{
//		Cluster: "orders",
//		Host:    ringpop.Host{Address: "10.0.0.7:7933", Labels: "zone=a"},
//		Listen:  "10.0.0.7:7946",
//		Seeds:   gossip.List("10.0.0.8:7946", "10.0.0.9:7946"),
//	})
//	if err != nil {
//		return err
//	}
//	if err := members.Start(ctx); err != nil {
//		return err
//	}
//	defer members.Stop()
//	node, err := headgate.New(config, source, members)
//
// A host is on no ring before Members.Watch runs, which a Node calls once it serves other hosts. Hosts probe each other. A host that dies, or hangs, is off the ring of all others
// within 2 seconds in clusters of up to 100 hosts. A host that calls Leave is off it at
// once. A host that is lost more than twice in two minutes must wait before it is back:
// 5 seconds, then 10, 20, and at most 30. Each host counts for itself, so for as long as
// a wait, two hosts may have different rings.
//
// A host that loses more deciders at once than it still reaches takes itself for one on the
// smaller side of a split: it logs an error, and Members.Missing says how many. The last host of
// two takes over.
//
// Hosts with another cluster name, or without a common key, never join. Seeds are asked
// again and again while they are not members, so that the parts of a cluster that
// was cut in two find each other.
//
// A program that imports this package listens on one more port, TCP and UDP.
//
// Out of scope: who may read what hosts say in a cluster without keys. Anybody who reaches the
// port can then join. One lock guards where the members gossip; memberlist guards the rest.
package gossip

// SPDX-License-Identifier: Apache-2.0

// Package demo runs a small cluster in one process and shows what a limit
// that is divided evenly wastes when the load is not even.
//
//	load ──HTTP──▶ host-1 ┐
//	90% to one     host-2 ├─ usage, grants over YARPC ─▶ the key's owner,
//	host           …      │                              one of the hosts
//	               host-5 ┘
//
// Nothing is simulated: each host is a headgate.Node with its own listener
// for other hosts and its own HTTP service, and the load is HTTP requests.
// Each request is decided by three algorithms at once, one of which answers
// (see Lane), so all are measured on the same traffic.
//
// The story has three phases. In "steady" one host is hot. In "moved"
// another is. In "killed" the host that decides for the keys dies; the load
// balancer notices first, the members of the cluster later.
//
//	result, err := demo.Run(ctx, demo.Config{For: 20 * time.Second}, func(f demo.Frame) {
//		fmt.Println(f.Headline)
//	})
//	result.WriteSummary(os.Stdout)
//
// Package tui below shows the frames in a terminal. Out of scope: measuring
// how fast headgate is (make bench) and other people's clusters.
package demo

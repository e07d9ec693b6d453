// SPDX-License-Identifier: Apache-2.0

// Package swarm has a test that draws random clusters, runs each in the simulator,
// and holds all of them to the same laws. docs/design/0010-swarm.md lists the laws.
//
//	make swarm N=1000 SEED=1
//
// When a law breaks, the test shrinks the cluster and prints a scenario that
// `headgate-lab simulate` runs. Out of scope: figures of named scenarios
// (package world).
package swarm

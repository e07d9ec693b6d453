// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps the history of limits in etcd, for several machines.
//
//	store, err := etcd.Open("etcds://etcd-0.example.com:2379,etcd-1.example.com:2379/headgate")
//	defer store.Close()
//	node, err := headgate.New(config, store, members)
//
// A change is one transaction, which compares what is newest and puts three keys:
//
//	headgate/newest                       version 7 without its text; all that watch follow this key
//	headgate/version/0000000000000000007  the same
//	headgate/text/0000000000000000007     the text
//
// While etcd is gone, each goes on with the limits that it has, and tries again.
//
// Out of scope: etcd's own history, which is compacted. A store is safe for concurrent use: one
// lock guards what it has read, and etcd has the rest.
package etcd

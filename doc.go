// SPDX-License-Identifier: Apache-2.0

// Package headgate limits rates across a cluster, mostly without a call to
// another host per request. It puts the parts together for a service that links
// them:
//
//	service ──▶ limiter ──usage──▶ rpc ──────▶ aggregator ──▶ algorithm
//	            decides            to the      of the key's    how to share
//	            in memory  ◀──weight── owner   owner
//	               ▲                 ▲
//	         dynamicconfig        ringpop
//	         which limit          which owner
//
// Every host decides in its own memory, reports what it used to the owner of
// each key every few seconds, and gets back its part of the limit. While it has
// none, the rule's fallback decides: by default, the limit divided by the hosts.
// Under auto, the default algorithm, a host that has no part yet, or lacks tokens,
// asks the owner first, and its caller waits for the answer.
//
//	node, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"},
//		file.New("limits.yaml"), members)
//	if err != nil { … }
//	if err := node.Start(ctx); err != nil { … }
//	defer node.Stop(context.Background())
//
//	if !node.For("frontend:orders").Allow() {
//		http.Error(w, "too many requests", http.StatusTooManyRequests)
//	}
//
// Services that use fx add Module instead. By default hosts talk to each other
// in plain text at Config.Address: WithTLS encrypts that, and WithTransport
// uses the service's own YARPC dispatcher. WithLimiter sets options of the
// limiters, such as a listener for their decisions. Metrics go to WithScope, and
// their names begin with headgate.
//
// Package dynamicconfig says what a limit is and how it is shared. This package
// makes no decisions, and has no state but its parts.
package headgate

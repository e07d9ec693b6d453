// SPDX-License-Identifier: Apache-2.0

// Package headgate limits rates across a cluster without asking anybody per
// request. It puts the parts together for a service that links them:
//
//	service ──▶ limiter ──usage──▶ rpc ──────▶ aggregator ──▶ algorithm
//	            decides            to the      of the key's    how to share
//	            in memory  ◀──weight── owner   owner
//	               ▲                 ▲
//	         dynamicconfig        ringpop
//	         which limit          which owner
//
// Every host decides in its own memory, tells the owner of each key every few
// seconds what it used, and gets back its weight of the limit. When it gets
// none, it falls back to the even share.
//
//	node, err := headgate.New(headgate.Config{Address: "10.0.0.1:7933"},
//		file.New("limits.yaml"), members)
//	if err != nil { … }
//	if err := node.Start(ctx); err != nil { … }
//	defer node.Stop(context.Background())
//
//	if !node.For("frontend:orders").Allow() {
//		http.Error(w, "too many requests", http.StatusTooManyRequests)
//	}
//
// Services that use fx add Module instead. What a limit is and how it is
// shared is config's: see package dynamicconfig. This package decides nothing
// itself, and holds no state but its parts.
package headgate

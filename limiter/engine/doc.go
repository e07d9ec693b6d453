// SPDX-License-Identifier: Apache-2.0

// Package engine is the one Engine behind all ways in: the limiters of a Group answer
// the edges of package rpc/edge and the interceptors of rpc/middleware, which know no
// limiter:
//
//	e := engine.New(node.Group(), node.Limits().Current)
//	d := e.Decide(ctx, edge.Ask{Key: "login:alice", Cost: 1})
//	api := httpapi.New(e, httpapi.Options{})
//
// Decisions are made in this process, as those of a Limiter are. DecideAll decides about
// many keys, and waits for the owners of several at the same time.
//
// Out of scope: protocols.
package engine

// SPDX-License-Identifier: Apache-2.0

// Package yarpclimit limits YARPC calls: those that a service takes, and those
// that it makes.
//
//	limit, err := yarpclimit.New(engine.New(node.Group(), nil), yarpclimit.Options{Key: "calls:{user}:{method}"})
//	dispatcher := yarpc.NewDispatcher(yarpc.Config{
//		Name:               "orders",
//		Inbounds:           inbounds,
//		InboundMiddleware:  yarpc.InboundMiddleware{Unary: limit, Oneway: limit, Stream: limit},
//		Outbounds:          outbounds,
//		OutboundMiddleware: yarpc.OutboundMiddleware{Unary: limit, Oneway: limit, Stream: limit},
//	})
//
// The key of a call is built by a template: package keys says how. {method} is
// the procedure, {path} the service and the procedure, `orders::List`, {user}
// the service that calls, and {header:NAME} an application header. YARPC does
// not say from which address a call comes, so there is no {ip}.
//
// A call over its limit is an error of code resource-exhausted. The header
// `retry-after-ms` of a unary call's response says when to come again, where
// that is known. With MaxWait, it waits for its turn first. A stream counts when
// it begins.
//
// Out of scope: what the limits are, and whether to believe what a call says
// of its caller.
package yarpclimit

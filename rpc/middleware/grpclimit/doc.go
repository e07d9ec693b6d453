// SPDX-License-Identifier: Apache-2.0

// Package grpclimit limits gRPC calls: those that a server takes, and those
// that a client makes.
//
//	limit, err := grpclimit.New(engine.New(node.Group(), nil), grpclimit.Options{Key: "calls:{user}:{method}"})
//	server := grpc.NewServer(grpc.UnaryInterceptor(limit.UnaryServer), grpc.StreamInterceptor(limit.StreamServer))
//	conn, err := grpc.NewClient(target, grpc.WithUnaryInterceptor(limit.UnaryClient), grpc.WithStreamInterceptor(limit.StreamClient))
//
// The key of a call is built by a template: package keys says how. A call over
// its limit is an error of code ResourceExhausted; the trailer
// grpc-retry-pushback-ms says to gRPC's own retries when to come again. With
// MaxWait, it waits for its turn first. A stream counts when it begins.
//
// A client that has no limits of its own asks a server of them for each call:
// quotaservice.Client is an Engine too.
//
// Out of scope: what the limits are.
package grpclimit

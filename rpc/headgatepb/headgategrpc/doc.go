// SPDX-License-Identifier: Apache-2.0

// Package headgategrpc holds the Decider service for plain gRPC, generated
// from headgateyarpc/decider.proto. On the wire it is the same service,
// /headgate.v1.Decider/Update, without YARPC's headers.
//
// Use rpcgrpc, which makes an rpc.Decider of it. The package is apart from
// headgateyarpc so that a program which speaks plain gRPC does not link YARPC.
package headgategrpc

// SPDX-License-Identifier: Apache-2.0

// Package headgateyarpc holds the Decider service for YARPC, generated from
// decider.proto. On the wire it is plain gRPC, /headgate.v1.Decider/Update,
// with YARPC's headers.
//
// Use rpcyarpc, which makes an rpc.Decider of it. The package is apart from
// headgatepb so that a program which only reads and writes messages does not
// link YARPC.
package headgateyarpc

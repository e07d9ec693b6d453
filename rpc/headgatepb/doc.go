// SPDX-License-Identifier: Apache-2.0

// Package headgatepb holds the messages of the protocol between hosts and
// deciders, generated from headgate.proto, which documents each field.
//
//	message, err := anypb.New(&headgatepb.Usage{
//		Algorithm:  "elastic",
//		ElapsedMs:  3000,
//		Keys:       []byte("frontend:orders"),
//		KeyLengths: []uint32{15},
//		Allowed:    []uint64{1200},
//	})
//	answer, err := decider.Update(ctx, "10.0.0.7:7500", message)
//	var grants headgatepb.Grants
//	err = answer.UnmarshalTo(&grants)
//
// Inside headgate no code builds these messages by hand: usage.Columnar writes
// and reads the same bytes, and checks them. The package is for tests, tools
// and transports.
//
// Out of scope: the service itself, in headgateyarpc, because it links an RPC
// library; and any checking of what the fields hold.
package headgatepb

//go:generate ./generate.sh

// SPDX-License-Identifier: Apache-2.0

// Package rpc is the entry of everything that hosts send to the owners of their
// keys. A Decider answers messages, and a Mux hands each message to the Decider of
// its family:
//
//	var mux rpc.Mux
//	err := mux.Register(usage.ReportTypeURL, aggregator)
//	err = mux.Register(rpc.TypeURL(&mypb.Request{}), mine)
//
// Each message family is a package that has its messages, their checks, their
// encoding, and what sends and forwards them: usage (and usage/ask, for what
// cannot wait), claims and meshusage. A service with a Node hands a family of its
// own to headgate.WithPayload.
//
// Both sides check every message, and refuse it whole when anything in it is beyond
// its bounds: see ErrPayload. docs/wire.md has the table of all bounds, and says how
// releases work together.
//
// The transports are elsewhere: rpcyarpc is the real one, rpcgrpc is for programs
// that own no keys. headgatepb holds the protocol.
//
// Out of scope: which host owns a key (ringpop), what to answer (aggregator), when to ask again
// (limiter). Nothing is retried here; the next report is soon. A Mux, whose lock guards its table,
// is the only state.
package rpc

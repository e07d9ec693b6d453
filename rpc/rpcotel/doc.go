// SPDX-License-Identifier: Apache-2.0

// Package rpcotel observes the calls between hosts with OpenTelemetry: a span and metrics
// for each call, on both sides. The trace context travels beside the message, so the span of
// the host that answers is below the span of the host that asks.
//
//	calls, err := rpcotel.New(rpcotel.Config{Tracers: tracers, Meters: meters})
//	if err != nil {
//		return err
//	}
//	node, err := headgate.New(config, source, members, headgate.WithInstrument(calls))
//
// A program with a client.Client gives the Instrument to client.WithInstrument. A host whose
// cluster does not use OpenTelemetry, or is of an earlier release, answers as before: its
// spans are missing, and nothing else.
//
// Out of scope: decisions. Most are made in memory, in nanoseconds, and counted by tally.
package rpcotel

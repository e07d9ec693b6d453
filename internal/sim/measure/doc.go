// SPDX-License-Identifier: Apache-2.0

// Package measure compares what a cluster admitted with one perfect bucket, and
// writes the figures as tables and JSON.
//
//	b := measure.NewBucket("orders", "elastic", 100, 100, warmup, end)
//	b.Event(now, cost, admitted) // each event, in order of time
//	result := measure.ResultOf(run, []*measure.Bucket{b}, tally, nil)
//
// docs/accuracy.md defines the figures. The perfect bucket shares no code with
// the limiters that it judges. The package does not know how a cluster runs.
package measure

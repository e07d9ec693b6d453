// SPDX-License-Identifier: Apache-2.0

// Package bucket is a token bucket that decides with one atomic step, and
// counts what it decides.
//
//	var b bucket.Bucket
//	b.Init(bucket.NewPace(100, 20)) // 100 tokens/s, at most 20
//	ok, _ := b.Allow(now)           // one token
//	v := b.Take(stage.Request{Now: now, N: 5, Longest: time.Second}, 0)
//	usage := b.Count(now)           // what was allowed and rejected, ever
//
// When several processors compete for a bucket, each keeps some of its tokens
// in a cache of its own. Callers see no difference: together the bucket and its
// caches allow what the bucket would have allowed alone.
//
// The package knows nothing of keys, rules, grants or reports, and reads no
// clock.
package bucket

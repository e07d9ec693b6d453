// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"testing"
	"time"
)

// Each field of a BucketRule reaches the bucket.
func TestABucketFollowsItsRule(t *testing.T) {
	const second = time.Second
	b := NewBucket(0, BucketRule{Limit: Limit{Rate: 2, Burst: 4}})
	for i, step := range []struct {
		rule BucketRule
		n    float64
		want Verdict
	}{
		{BucketRule{Limit: Limit{Rate: 2, Burst: 4}}, 4, Verdict{OK: true}},
		{BucketRule{Limit: Limit{Rate: 1, Burst: 4}}, 1, Verdict{OK: true, Wait: second}},
		{BucketRule{Limit: Limit{Rate: 1, Burst: 4}, MaxWait: second}, 1, Verdict{Retry: second}},
		{BucketRule{Limit: Limit{Rate: 1, Burst: 4}, MaxDebt: 9 * second, MaxCost: 6}, 6, Verdict{OK: true, Wait: second}},
		{BucketRule{Limit: Limit{Rate: 1, Burst: 4}, MaxDebt: 9 * second, MaxCost: 5}, 6, Verdict{Retry: Never}},
	} {
		b.Rule(0, step.rule)
		if got := b.Take(0, step.n, -1); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
	if b.Level(0) != -7 || b.Rate() != 1 || b.Burst() != 4 || b.Full(0) {
		t.Errorf("%v tokens at %v/s of %v", b.Level(0), b.Rate(), b.Burst())
	}
}

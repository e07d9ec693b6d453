// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// A program that drives a Group may name any row: Apply refuses one that is not there, and Fail ignores it.
func TestRowsThatABatchDoesNotHave(t *testing.T) {
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte("limits: [{key: k, limit: 10/s, algorithm: elastic}]"))
	if err != nil {
		t.Fatal(err)
	}
	group := limiter.NewGroup(snapshot, 1)
	group.For("k").Allow()
	d, now := Of(group), stage.Now()
	grants := &usage.Grants{Weight: []float64{1}, Burst: []float64{10}, Used: []float64{0}, Lease: []time.Duration{time.Minute}}
	for _, row := range []int{-1, 1} {
		batches := d.Report(now)
		if len(batches) != 1 || batches[0].Usage.Len() != 1 {
			t.Fatalf("%d batches", len(batches))
		}
		b := batches[0]
		if err := d.Apply(now, b, []int{row}, grants); err == nil {
			t.Errorf("row %d of 1 was applied", row)
		}
		d.Fail(now, b, []int{row})
		if err := d.Apply(now, b, []int{0}, grants); err != nil {
			t.Errorf("after row %d: %v", row, err)
		}
		d.Done(b)
		d.Fail(now, b, []int{0})
		if err := d.Apply(now, b, []int{0}, grants); err == nil {
			t.Error("a batch that is done was answered")
		}
		group.For("k").Allow()
		now = now.Add(3 * time.Second)
	}
}

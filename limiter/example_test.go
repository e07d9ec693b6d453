// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// A key's limit is divided evenly until its owner has granted something else.
func ExampleGroup() {
	rules, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{
		{Key: "frontend:*", Limit: 10, Algorithm: "request-weighted"},
	}}.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	group := limiter.NewGroup(rules, 2)
	orders := group.For("frontend:orders") // keep it, or ask again: both are cheap

	now := stage.Now()
	allowed := 0
	for range 8 {
		if orders.AllowN(now.Time(), 1) {
			allowed++
		}
	}
	fmt.Println("one of two hosts:", allowed, "of 8")

	// Run does this every interval. Here it is done by hand, and the other host is idle.
	now = now.Add(time.Second)
	for _, batch := range driver.Of(group).Report(now) {
		u := batch.Usage
		fmt.Println(u.Algorithm, u.Keys, "allowed", u.Allowed, "rejected", u.Rejected)
		err := driver.Of(group).Apply(now, batch, nil, &usage.Grants{
			Weight: []float64{1},
			Burst:  []float64{10},
			Used:   []float64{5},
			Lease:  []time.Duration{30 * time.Second},
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("granted:", orders.Limit(), "per second")
	// Output:
	// one of two hosts: 5 of 8
	// request-weighted [frontend:orders] allowed [5] rejected [3]
	// granted: 10 per second
}

// A Bucket stands where a rate.Limiter stood.
func ExampleNewBucket() {
	bucket := limiter.NewBucket(5, 2) // 5 per second, 2 at once
	start := time.Now()
	for _, after := range []time.Duration{0, 0, 0, 200 * time.Millisecond} {
		fmt.Println(bucket.AllowN(start.Add(after), 1))
	}
	// Output:
	// true
	// true
	// false
	// true
}

// A request that counts against two limits takes tokens of both or of none.
func ExampleAllowAll() {
	tenant, service := rate.NewLimiter(0, 2), rate.NewLimiter(0, 100)
	for range 3 {
		fmt.Println(limiter.AllowAll(context.Background(),
			limiter.Cost{Limiter: limiter.FromRate(tenant), N: 1},
			limiter.Cost{Limiter: limiter.FromRate(service), N: 10},
		))
	}
	fmt.Printf("the service has %.0f left\n", service.Tokens())
	// Output:
	// true
	// true
	// false
	// the service has 80 left
}

// Take takes what an event is thought to cost. Settle says what it did cost.
func ExampleLimiter_Take() {
	bucket := limiter.NewBucket(0, 500)
	e := bucket.Take(context.Background(), 300, 0)
	if !e.OK() {
		return
	}
	defer e.Cancel() // unless it was settled
	fmt.Printf("left: %.0f\n", bucket.Tokens())
	e.Settle(120)
	fmt.Printf("left: %.0f\n", bucket.Tokens())
	// Output:
	// left: 200
	// left: 380
}

// A rule may limit how much is in flight, instead of how often it begins.
func ExampleLimiter_Acquire() {
	rules, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{
		{Key: "db:*", Limit: 2, InFlight: true, Algorithm: limiter.Even},
	}}.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	db := limiter.NewGroup(rules, 1).For("db:orders")

	ctx := context.Background()
	first, err := db.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, _ := db.TryAcquire(1)
	_, ok := db.TryAcquire(1)
	fmt.Println("a third:", ok)

	go first() // its query is over
	third, err := db.Acquire(ctx, 1, limiter.Priority(1))
	fmt.Println("after the first:", err == nil)
	second()
	third()
	fmt.Println("free:", db.Tokens())
	// Output:
	// a third: false
	// after the first: true
	// free: 2
}

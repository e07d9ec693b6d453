// SPDX-License-Identifier: Apache-2.0

package shadow_test

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A stricter limiter is measured beside the service's own one before it
// decides.
func ExampleNew() {
	old, new := limiter.FromRate(rate.NewLimiter(rate.Every(time.Minute), 10)), limiter.NewBucket(rate.Every(time.Minute), 6)
	l := shadow.New(old, new, dynamicconfig.ModeOldShadowNew)

	now := time.Now()
	for range 12 {
		l.AllowN(now, 1)
	}
	fmt.Printf("%+v\n", l.Counts())

	l.SetMode(dynamicconfig.ModeNew)
	fmt.Println("a second burst:", l.AllowN(now, 1))
	// Output:
	// {Both:6 OnlyOld:4 OnlyNew:0 Neither:2 Skipped:0}
	// a second burst: false
}

// A Group migrates the keys whose rules say so.
func ExampleMigrator() {
	rules, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{
		Key:   "db:*",
		Limit: 100,
		Migration: &dynamicconfig.Migration{
			From: "request-weighted",
			To:   "elastic",
			Mode: dynamicconfig.ModeOldShadowNew,
		},
	}}}.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	group := limiter.NewGroup(rules, 1, limiter.WithMigration(shadow.Migrator()))
	fmt.Println(group.For("db:shard-7").Allow())
	for _, batch := range driver.Of(group).Report(stage.Now().Add(time.Second)) {
		fmt.Println(batch.Usage.Algorithm, batch.Usage.Keys, batch.Usage.Allowed)
	}
	// Output:
	// true
	// elastic [db:shard-7] [1]
	// request-weighted [db:shard-7] [1]
}

// SPDX-License-Identifier: Apache-2.0

package shadow_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/shadow"
)

// A stricter limiter is measured beside the old one before it answers.
func Example() {
	old, new := limiter.NewBucket(10, 10), limiter.NewBucket(6, 6)
	l := shadow.New(old, new, dynamicconfig.ModeOldShadowNew)

	now := time.Now()
	for range 12 {
		l.AllowN(now, 1)
	}
	fmt.Printf("%+v\n", l.Counts())

	l.SetMode(limiter.At(now), dynamicconfig.ModeNew)
	fmt.Println("a second burst:", l.AllowN(now, 1))
	// Output:
	// {Both:6 OnlyOld:4 OnlyNew:0 Neither:2}
	// a second burst: false
}

// A Group migrates the keys whose rules say so.
func ExampleFromSteps() {
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
	group := limiter.NewGroup(rules, 1, limiter.WithMigration(
		func(old, new limiter.Stepper, mode dynamicconfig.Mode) limiter.Migrator {
			return shadow.FromSteps(old, new, mode)
		}))
	fmt.Println(group.For("db:shard-7").Allow())
	for _, batch := range group.Report(limiter.Now().Add(time.Second)) {
		fmt.Println(batch.Usage.Algorithm, batch.Usage.Keys, batch.Usage.Allowed)
	}
	// Output:
	// true
	// elastic [db:shard-7] [1]
	// request-weighted [db:shard-7] [1]
}

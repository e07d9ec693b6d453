// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// operation is a row of the file, and how it is measured. Its functions run
// in a process of their own, where they panic with what is wrong.
type operation struct {
	name  string
	per   string // what one unit is
	units int    // in one run, message or heap

	// bench sets up and returns one run of the operation, and what has to
	// be done before each run and is not its cost, which may be nil.
	bench func() (prepare, run func())
	// runs are in one batch of counted instructions; 1 if there is a prepare.
	runs int
	// slow operations take more than a second to count, mostly to set up, or are nearly the
	// same as others. Only the long form counts them.
	slow bool

	// wire returns the bytes of one message.
	wire func() int
	// hold returns what sits on the heap.
	hold func() any
}

// operations are all that are watched.
func operations() []operation {
	return slices.Concat(decisions(), reports(), deciding(), messages(), placing())
}

// both are the algorithms whose cost is watched.
var both = []string{algorithm.NameRequestWeighted, algorithm.NameElastic}

// onHosts are both, and the default, whose owners account as those of elastic do.
var onHosts = slices.Concat(both, []string{limiter.Auto})

const interval = time.Second

// rules is a snapshot of one rule, which forgets no key for a day.
func rules(rule dynamicconfig.Rule) *dynamicconfig.Snapshot {
	rule.MaxKeys = 1 << 20
	rule.IdleAfter = 24 * time.Hour
	return must(dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: interval},
		Rules:      []dynamicconfig.Rule{rule},
	}.Snapshot())
}

// keys are n different keys of 24 bytes, each a string of its own.
func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("frontend:domain-%08d", i)
	}
	return all
}

func column[T any](n int, v T) []T { return slices.Repeat([]T{v}, n) }

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

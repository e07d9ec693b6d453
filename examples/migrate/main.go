// SPDX-License-Identifier: Apache-2.0

// Command migrate moves a service from a *rate.Limiter to headgate in three
// steps. Each step is a release of its own. The program makes them one after
// another, and prints what each limiter allows of twenty events:
//
//	go run ./examples/migrate
//
// steps.go is what to copy.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// limits has the new limit. Here it is higher than the old one, to have
// something to measure.
const limits = `
limits:
  - {key: "frontend:orders", limit: 1/h, burst: 8}
`

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		return err
	}
	old := func() *rate.Limiter { return rate.NewLimiter(rate.Every(time.Hour), 5) }
	group := func() *limiter.Group { return limiter.NewGroup(snapshot, 1) } // in a service, node.Group()

	fmt.Fprintln(out, "before:", serve(old(), 20))
	fmt.Fprintln(out, "step 1:", serve(wrapped(old()), 20))
	measured := shadowed(old(), group())
	fmt.Fprintln(out, "step 2:", serve(measured, 20))
	c := measured.Counts()
	fmt.Fprintf(out, "        both allowed %d, only the old %d, only the new %d, neither %d\n", c.Both, c.OnlyOld, c.OnlyNew, c.Neither)
	fmt.Fprintln(out, "step 3:", serve(replaced(group()), 20))
	return nil
}

// serve returns how many of n events limit allows.
func serve(limit Limiter, n int) (allowed int) {
	for range n {
		if limit.Allow() {
			allowed++
		}
	}
	return allowed
}

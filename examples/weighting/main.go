// SPDX-License-Identifier: Apache-2.0

// Command weighting shows two weightings of a service's own. It prints how each
// divides a limit; its test has real nodes divide one. A service passes them to its
// nodes, and its rules name them:
//
//	headgate.WithAlgorithm("half-to-the-biggest", halfToTheBiggest)
//	headgate.WithAlgorithm("zone-a-double", zoneADouble)
//
//	limits:
//	  - {key: "orders:*", limit: 1000/s, algorithm: {account: pool, weigh: zone-a-double}}
//
//	go run ./examples/weighting
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/headgate/headgate/algorithm"
)

func main() { show(os.Stdout) }

// show prints how 100 events/s are divided.
func show(w io.Writer) {
	demands := []algorithm.Demand{
		{Host: "a1", Labels: algorithm.NewLabels(map[string]string{"zone": "a"}), Wants: 60},
		{Host: "a2", Labels: algorithm.NewLabels(map[string]string{"zone": "a"}), Wants: 30},
		{Host: "b1", Labels: algorithm.NewLabels(map[string]string{"zone": "b"}), Wants: 120},
	}
	for _, one := range []struct {
		name  string
		weigh algorithm.Weigh
	}{
		{"half-to-the-biggest", halfToTheBiggest},
		{"zone-a-double", zoneADouble},
	} {
		parts := make([]float64, len(demands))
		one.weigh(100, demands, parts)
		fmt.Fprintf(w, "%s:", one.name)
		for i, d := range demands {
			fmt.Fprintf(w, " %s %.0f/s", d.Host, parts[i])
		}
		fmt.Fprintln(w)
	}
}

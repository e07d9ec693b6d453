// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"fmt"

	"github.com/headgate/headgate/algorithm"
)

// A weighing of a service's own: the same part for each host that wants something.
func ExamplePool() {
	even := func(capacity float64, demands []algorithm.Demand, parts []float64) {
		for i := range parts {
			parts[i] = capacity / float64(len(demands))
		}
	}
	registry := algorithm.Builtin()
	fmt.Println(registry.Register("even-parts", algorithm.Pool(even)))

	parts := make([]float64, 2)
	even(100, []algorithm.Demand{{Host: "a", Wants: 10}, {Host: "b", Wants: 300}}, parts)
	fmt.Println(parts)
	// Output:
	// <nil>
	// [50 50]
}

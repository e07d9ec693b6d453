// SPDX-License-Identifier: Apache-2.0

package dynamicconfig_test

import (
	"fmt"

	"github.com/headgate/headgate/dynamicconfig"
)

func ExampleParse() {
	s, err := dynamicconfig.Parse("limits.yaml", []byte(`
limits:
  - key: "frontend:orders"
    limit: 1000/s
  - key: "frontend:*"
    limit: 100/s
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"frontend:orders", "frontend:carts", "batch:mail"} {
		rule, ok := s.Match(key)
		if !ok {
			fmt.Println(key, s.Unmatched())
			continue
		}
		fmt.Println(key, rule.Limit, rule.Burst, rule.Algorithm)
	}
	// Output:
	// frontend:orders 1000 1000 auto
	// frontend:carts 100 100 auto
	// batch:mail allow
}

func ExampleParse_mistake() {
	_, err := dynamicconfig.Parse("limits.yaml", []byte(`limits:
  - key: "frontend:orders"
    limit: 1000/w
`))
	fmt.Println(err)
	// Output:
	// limits.yaml:3:12: rule "frontend:orders": limit: "1000/w" has the unit "w": use s, m, h or d, as in 1000/s, 5/m or 100/h
	//     3 |     limit: 1000/w
	//       |            ^
}

func ExampleConfig_Snapshot() {
	s, err := dynamicconfig.Config{
		Name:  "built in",
		Rules: []dynamicconfig.Rule{{Key: "login:*", Limit: 5.0 / 60, Algorithm: "exact"}},
	}.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, _ := s.Match("login:ann")
	fmt.Println(rule.Key, rule.Burst, rule.Lease)
	// Output: login:* 1 30s
}

func ExampleInt() {
	live := dynamicconfig.NewLive(nil)
	pageSize := dynamicconfig.Int(live, "orders.page_size", 100)
	fmt.Println(pageSize.Get())

	next, err := dynamicconfig.Parse("limits.yaml", []byte("properties: {orders.page_size: 50}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := live.Set(next); err != nil {
		fmt.Println(err)
	}
	fmt.Println(pageSize.Get())
	// Output:
	// 100
	// 50
}

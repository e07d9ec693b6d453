// SPDX-License-Identifier: Apache-2.0

package ringpop_test

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

func Example() {
	ring, err := ringpop.New([]ringpop.Host{
		{Address: "10.0.0.1:7933"},
		{Address: "10.0.0.2:7933"},
		{Address: "10.0.0.3:7933"},
	}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	owner := ring.Owner("frontend:orders")
	fmt.Println(owner, "leaves")
	fmt.Println(ring.Without(owner).Owner("frontend:orders"))
	// Output:
	// 10.0.0.1:7933 leaves
	// 10.0.0.2:7933
}

func ExampleLive() {
	members, err := static.New(ringpop.Host{Address: "10.0.0.1:7933"}, ringpop.Host{Address: "10.0.0.2:7933"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	live := ringpop.NewLive(0)
	err = live.Run(ctx, members, func(old, new *ringpop.Ring) {
		fmt.Println(old.Len(), "hosts, now", new.Len())
		stop() // a service goes on instead
	})
	fmt.Println(live.Owner("frontend:orders"), err)
	// Output:
	// 0 hosts, now 2
	// 10.0.0.1:7933 <nil>
}

// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sql/sqlite"
)

func Example() {
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store := sqlite.New(dir)
	defer store.Close()

	ctx := context.Background()
	change := history.Change{Text: "limits: [{key: orders, limit: 100/s}]\n", Author: "ada", Message: "first limits"}
	first, err := store.Append(ctx, change)
	fmt.Println(first.Number, err)

	change = history.Change{Base: first.Number, Text: "limits: [{key: orders, limit: 200/s}]\n", Author: "bob", Message: "for the sale"}
	second, err := store.Append(ctx, change)
	fmt.Println(second.Number, err)

	_, err = store.Append(ctx, change) // on top of what is not the newest any more
	conflict, ok := errors.AsType[*history.Conflict](err)
	fmt.Println(ok, conflict.Newest)

	third, err := history.Restore(ctx, store, first.Number, history.Change{Base: second.Number, Author: "bob"})
	fmt.Println(third.Number, third.Message, err)

	limits, err := store.Load(ctx) // for headgate.New and Live.Run
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, _ := limits.Match("orders")
	fmt.Println(limits.Name(), rule.Limit)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// true 2
	// 3 restore version 1 <nil>
	// version 3 100
}

// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/limiter/client"
)

func Example() {
	dir, err := os.MkdirTemp("", "headgate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	limits := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(limits, []byte("limits:\n  - {key: \"frontend:*\", limit: 2/m, burst: 2, ask_timeout: 10s}\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	// Elsewhere: headgate serve --limits limits.yaml --edge …
	silent := slog.New(slog.DiscardHandler)
	decider, err := daemon.Start(context.Background(), daemon.Config{Limits: limits, Listen: "127.0.0.1:0", Edge: "127.0.0.1:0"}, silent)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer decider.Stop(context.Background())

	c, err := client.New(client.Config{Addresses: []string{decider.Edge()}, Hosts: 1}, file.New(limits), client.WithLogger(silent))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	orders := c.For("frontend:orders")
	for range 3 {
		fmt.Println(orders.Allow())
	}
	// Output:
	// true
	// true
	// false
}

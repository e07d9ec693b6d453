// SPDX-License-Identifier: Apache-2.0

// Command frontend is a small web service that links headgate. Start it once
// per host, each with the same list of hosts:
//
//	go run ./examples/frontend -http 127.0.0.1:8081 -cluster 127.0.0.1:7933 -hosts 127.0.0.1:7933,127.0.0.1:7934
//	go run ./examples/frontend -http 127.0.0.1:8082 -cluster 127.0.0.1:7934 -hosts 127.0.0.1:7933,127.0.0.1:7934
//	curl -i 'http://127.0.0.1:8081/?tenant=orders'
//
// Edit limits.yaml while it runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

func main() {
	address := flag.String("http", "127.0.0.1:8081", "where to serve requests")
	cluster := flag.String("cluster", "127.0.0.1:7933", "this host's address for other hosts")
	hosts := flag.String("hosts", "127.0.0.1:7933", "all hosts' addresses, separated by commas")
	limits := flag.String("limits", "examples/frontend/limits.yaml", "file of limits")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *cluster, strings.Split(*hosts, ","), *limits); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, cluster string, addresses []string, limits string) error {
	var hosts []ringpop.Host
	for _, a := range addresses {
		hosts = append(hosts, ringpop.Host{Address: a})
	}
	members, err := static.New(hosts...)
	if err != nil {
		return err
	}
	node, err := headgate.New(headgate.Config{Address: cluster}, file.New(limits), members)
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !node.For("frontend:" + r.FormValue("tenant")).Allow() {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		fmt.Fprintln(w, "hello")
	})}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err = server.ListenAndServe()
	if ctx.Err() != nil { // we were asked to end
		err = nil
	}
	return errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
}

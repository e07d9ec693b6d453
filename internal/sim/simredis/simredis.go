// SPDX-License-Identifier: Apache-2.0

// Package simredis lets the simulator ask a real Redis, whose time is the
// simulator's:
//
//	server, err := simredis.Start(ctx)
//	defer server.Stop()
//	world.Options{Algorithm: simredis.Name, Elsewhere: server.Elsewhere()}
//
// Events wait for it in no time. It needs scripts/redis.sh, in the folder of the
// project. Out of scope: a Redis that fails, which the tests of limiter/redis have.
package simredis

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/limiter/stage"
)

// Name is the algorithm of buckets in Redis.
const Name = "redis"

// Server is a Redis that ends with Stop. Use Start. Safe for concurrent use.
type Server struct {
	buckets func(redis.Config, ...redis.Option) (*redis.Buckets, error) // of one client
	close   func() error                                                // closes it
	server  *exec.Cmd
	dir     string
	runs    atomic.Int64
}

// Start starts a server on a free port of loopback, empty. It ends at the latest
// with ctx.
func Start(ctx context.Context) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address, _ := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return nil, err
	}
	s := new(Server)
	if s.dir, err = os.MkdirTemp("", "simdocs-redis"); err != nil {
		return nil, err
	}
	s.server = exec.CommandContext(ctx, "sh", "scripts/redis.sh", strconv.Itoa(address.Port), s.dir)
	s.server.Stdout, s.server.Stderr = io.Discard, os.Stderr
	if err := s.server.Start(); err != nil {
		return nil, fmt.Errorf("start redis, in the folder of the project: %w", err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: address.String(), MaxRetries: 100, MaxRetryBackoff: 100 * time.Millisecond, ReadTimeout: time.Minute})
	s.close = client.Close
	s.buckets = func(config redis.Config, options ...redis.Option) (*redis.Buckets, error) {
		return redis.New(client, config, options...)
	}
	if err := client.Ping(ctx).Err(); err != nil {
		s.Stop()
		return nil, fmt.Errorf("redis does not come up; sh scripts/redis.sh --install installs it: %w", err)
	}
	return s, nil
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.close()
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	_ = os.RemoveAll(s.dir)
}

// Elsewhere are buckets of its own for a run, for world.Options.
func (s *Server) Elsewhere() map[string]func(func() traffic.Time) stage.Remote {
	return map[string]func(func() traffic.Time) stage.Remote{Name: func(clock func() traffic.Time) stage.Remote {
		buckets, err := s.buckets(redis.Config{
			Prefix: fmt.Sprintf("run-%d:", s.runs.Add(1)), Timeout: time.Minute,
		}, redis.WithLogger(slog.Default()), redis.WithClock(clock))
		if err != nil {
			panic(err) // nothing of it is anybody's choice
		}
		return buckets
	}}
}

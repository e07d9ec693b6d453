// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/headgate/headgate/internal/sim"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redis"
)

// redisName is the algorithm of buckets in Redis.
const redisName = "redis"

// redisServer is a real Redis, whose clock is the simulator's: events wait for it
// in no time.
type redisServer struct {
	client *goredis.Client
	server *exec.Cmd
	dir    string
	runs   atomic.Int64
}

// startRedis starts a server on a free port, by scripts/redis.sh.
func startRedis(ctx context.Context) (*redisServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address, _ := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return nil, err
	}
	s := new(redisServer)
	if s.dir, err = os.MkdirTemp("", "simdocs-redis"); err != nil {
		return nil, err
	}
	s.server = exec.CommandContext(ctx, "sh", "scripts/redis.sh", strconv.Itoa(address.Port), s.dir)
	s.server.Stdout, s.server.Stderr = io.Discard, os.Stderr
	if err := s.server.Start(); err != nil {
		return nil, fmt.Errorf("start redis, in the folder of the project: %w", err)
	}
	s.client = goredis.NewClient(&goredis.Options{Addr: address.String(), MaxRetries: 100, MaxRetryBackoff: 100 * time.Millisecond})
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.stop()
		return nil, fmt.Errorf("redis does not come up; sh scripts/redis.sh --install installs it: %w", err)
	}
	return s, nil
}

func (s *redisServer) stop() {
	_ = s.client.Close()
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	_ = os.RemoveAll(s.dir)
}

// elsewhere are buckets of their own for one run.
func (s *redisServer) elsewhere() map[string]func(func() sim.Time) limiter.Remote {
	return map[string]func(func() sim.Time) limiter.Remote{redisName: func(clock func() sim.Time) limiter.Remote {
		buckets, err := redis.New(s.client, redis.Config{
			Prefix: fmt.Sprintf("run-%d:", s.runs.Add(1)), Timeout: time.Minute,
		}, redis.WithLogger(slog.Default()), redis.WithClock(clock))
		if err != nil {
			panic(err) // nothing of it is anybody's choice
		}
		return buckets
	}}
}

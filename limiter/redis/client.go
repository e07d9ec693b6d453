// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say where Redis is.
type Options struct {
	// Addresses are host:port: of one server, of some nodes of a Redis
	// Cluster, or, with Master, of Sentinels. Required.
	Addresses []string

	// Cluster: a single address is that of a Redis Cluster's node.
	Cluster bool

	// Master is the name that Sentinels know the server by.
	Master string

	// Username and Password log in; empty: nobody does.
	Username, Password string

	// DB is the number of the database; a Redis Cluster only has 0.
	DB int

	// TLS is how to talk TLS; nil: not at all.
	TLS *tls.Config

	// Timeout bounds each step of a call; default DefaultTimeout. New's
	// Config bounds the call.
	Timeout time.Duration

	// Connections is how many there are to a server at most; default
	// DefaultMaxCalls. More than Config.MaxCalls are never used.
	Connections int
}

// Client returns a client that suits New: pooled connections, short timeouts,
// and nothing is tried again, because an event has its answer at once or never.
// A Redis Cluster's redirects are followed. The caller closes it.
func Client(o Options) goredis.UniversalClient {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Connections <= 0 {
		o.Connections = DefaultMaxCalls
	}
	return goredis.NewUniversalClient(&goredis.UniversalOptions{
		Addrs:                 o.Addresses,
		IsClusterMode:         o.Cluster,
		MasterName:            o.Master,
		Username:              o.Username,
		Password:              o.Password,
		DB:                    o.DB,
		TLSConfig:             o.TLS,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DialTimeout:           max(o.Timeout, minDial),
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		PoolSize:              o.Connections,
		MinIdleConns:          1,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}

const (
	// bufferSize is enough for a call and its answer.
	bufferSize = 4 << 10

	// minDial is for TLS, which takes longer than a call; a call does not
	// wait for longer all the same.
	minDial = 500 * time.Millisecond
)

// LogTo has log, at debug level, take what the client library says of its
// connections, which else goes to stderr. It is for the whole process, and
// other users of the library in it: call it before any Client is made.
func LogTo(log *slog.Logger) { goredis.SetLogger(logger{log}) }

type logger struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l logger) Printf(ctx context.Context, format string, values ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis: "+fmt.Sprintf(format, values...))
	}
}

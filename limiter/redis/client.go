// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say where Redis is.
type Options struct {
	// Addresses are host:port: of one server, of some nodes of a Redis
	// Cluster, or, with Master, of Sentinels. Required.
	Addresses []string

	// Cluster says that a single address is a node of a Redis Cluster.
	Cluster bool

	// Master is the name that Sentinels know the server by.
	Master string

	// Username and Password log in. If both are empty, the client does not
	// log in.
	Username, Password string

	// Credentials, when not nil, returns the username and the password for each new
	// connection, in place of Username and Password: so a password may change while the
	// service runs. It is called by many goroutines at once.
	Credentials func(ctx context.Context) (username, password string, err error)

	// DB is the number of the database. A Redis Cluster only has 0.
	DB int

	// TLS configures TLS; nil means none.
	TLS *tls.Config

	// Timeout bounds each read and write; default DefaultTimeout. Config's
	// Timeout bounds the whole call, and is not longer.
	Timeout time.Duration

	// Connections is how many connections there are to a server at most;
	// default DefaultMaxCalls. It bounds Config.MaxCalls.
	Connections int
}

// Client returns a client for New, with a pool of connections and short
// timeouts. It never sends a command again, because the event cannot wait, but
// follows a Redis Cluster's redirects. The caller closes it. New refuses it if o has no
// Addresses.
func Client(o Options) goredis.UniversalClient {
	if len(o.Addresses) == 0 || slices.Contains(o.Addresses, "") {
		return addressless{goredis.NewClient(new(goredis.Options))} // the library means a Redis on this machine
	}
	o.Timeout, o.Connections = cmp.Or(max(o.Timeout, 0), DefaultTimeout), cmp.Or(max(o.Connections, 0), DefaultMaxCalls)
	return goredis.NewUniversalClient(&goredis.UniversalOptions{
		Addrs:         o.Addresses,
		IsClusterMode: o.Cluster,
		MasterName:    o.Master,
		Username:      o.Username,
		Password:      o.Password,

		CredentialsProviderContext: o.Credentials,
		DB:                         o.DB,
		TLSConfig:                  o.TLS,
		MaxRetries:                 -1,
		DialerRetries:              1,
		ContextTimeoutEnabled:      true,
		DialTimeout:                max(o.Timeout, minDial),
		ReadTimeout:                o.Timeout,
		WriteTimeout:               o.Timeout,
		PoolTimeout:                o.Timeout,
		PoolSize:                   o.Connections,
		MinIdleConns:               1,
		ReadBufferSize:             bufferSize,
		WriteBufferSize:            bufferSize,
		DisableIdentity:            true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}

// addressless is a client that was not told where Redis is. New refuses it.
type addressless struct{ goredis.UniversalClient }

const (
	// bufferSize is enough for a call and its answer.
	bufferSize = 4 << 10

	// minDial is for TLS, whose handshake may take longer than a call waits.
	// The connection serves a later call then.
	minDial = 500 * time.Millisecond
)

// LogTo makes the client library write what it logs of its connections to log,
// at debug level. Without it, the library writes to stderr. It holds for all
// users of the library in this process: call it before making a client.
func LogTo(log *slog.Logger) {
	if log != nil {
		goredis.SetLogger(logger{log})
	}
}

type logger struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l logger) Printf(ctx context.Context, format string, values ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis: "+fmt.Sprintf(format, values...))
	}
}

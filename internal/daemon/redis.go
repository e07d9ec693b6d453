// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/dialled"
	"github.com/headgate/headgate/internal/daemon/redisbuckets"
	"github.com/headgate/headgate/limiter/redis"
)

// Redis says where the buckets are of keys whose rule says `algorithm: redis`.
// The zero Redis is none, and then no rule may say so.
type Redis struct {
	// Addresses are host:port: one server, or some nodes of a Redis Cluster.
	Addresses []string
	// Cluster: a single address is that of a Redis Cluster's node.
	Cluster bool
	// Timeout is how long a decision waits for Redis at most; default
	// redis.DefaultTimeout. More rides out longer hiccups, in which programs
	// wait for longer.
	Timeout time.Duration
	// Prefix is what the names of all buckets begin with; default
	// redis.DefaultPrefix.
	Prefix string
	// User logs in with a password; default the one that Redis calls default.
	User string
	// Password logs in; default there is no login. Or the first line of PasswordFile is the
	// password, which is read by Start and for each new connection. What is broken or gone
	// then changes nothing.
	Password, PasswordFile string
	// TLS: talk TLS, and trust whom this machine trusts.
	TLS bool
}

// redisName is the algorithm of rules whose buckets are there.
const redisName = "redis"

// validate returns all that is wrong with r.
func (r Redis) validate() error {
	var errs []error
	if len(r.Addresses) == 0 && (r.Cluster || r.TLS || r.Timeout != 0 || r.Prefix+r.User+r.Password+r.PasswordFile != "") {
		errs = append(errs, mistaken(errors.New("redis: there are settings, and no address: say where it is"), "redis-cluster", "redis-tls", "redis-timeout", "redis-prefix", "redis-user", "redis-password-file"))
	}
	for _, a := range r.Addresses {
		if err := dialled.Check(a, 6379); err != nil {
			errs = append(errs, mistaken(fmt.Errorf("redis: %w", err), "redis"))
		}
	}
	if r.Password != "" && r.PasswordFile != "" {
		errs = append(errs, mistaken(errors.New("redis: a password is given, and a file with one: choose one"), "redis-password-file"))
	}
	if r.User != "" && r.Password == "" && r.PasswordFile == "" {
		errs = append(errs, mistaken(fmt.Errorf("redis: user %q has no password: give one, or a file with it", r.User), "redis-user"))
	}
	return errors.Join(append(errs, mistaken(r.config().Validate(), "redis-prefix", "redis-timeout"))...)
}

func (r Redis) config() redis.Config { return redis.Config{Prefix: r.Prefix, Timeout: r.Timeout} }

// login is who logs in.
func (r Redis) login() redisbuckets.Login {
	return redisbuckets.Login{User: r.User, Password: r.Password, PasswordFile: r.PasswordFile}
}

// open returns the buckets of r. It connects in the background.
func (r Redis) open(log *slog.Logger, scope tally.Scope) (*redisbuckets.Buckets, error) {
	o := redis.Options{Addresses: r.Addresses, Cluster: r.Cluster, Timeout: r.Timeout}
	if r.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redisbuckets.Open(o, r.config(), r.login(), log, scope)
}

// check warns of a Redis that no rule names.
func (r Redis) check(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	if len(r.Addresses) > 0 && !slices.Contains(limits.Algorithms(), redisName) {
		log.Warn("no rule says `algorithm: redis`: it is never asked", "redis", strings.Join(r.Addresses, ","))
	}
}

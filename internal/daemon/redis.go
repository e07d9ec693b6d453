// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/filewatch"
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
	// Password logs in; default nobody does. Or the first line of PasswordFile is the
	// password, which is read by Start and for each new connection. What is broken or gone
	// then changes nothing.
	Password, PasswordFile string
	// TLS: talk TLS, and trust whom this machine trusts.
	TLS bool
}

const (
	// redisName is the algorithm of rules whose buckets are there.
	redisName = "redis"
	// maxPassword bounds the file of a password, in bytes.
	maxPassword = 4 << 10
)

// validate returns all that is wrong with r.
func (r Redis) validate() error {
	var errs []error
	if len(r.Addresses) == 0 && (r.Cluster || r.TLS || r.Timeout != 0 || r.Prefix+r.User+r.Password+r.PasswordFile != "") {
		errs = append(errs, mistaken(errors.New("redis: there are settings, and no address: say where it is"), "redis-cluster", "redis-tls", "redis-timeout", "redis-prefix", "redis-user", "redis-password-file"))
	}
	for _, a := range r.Addresses {
		if err := dialable(a); err != nil {
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

// remote are buckets in Redis, and what closes the connections to them.
type remote struct {
	*redis.Buckets

	close func() error
}

// err is why Redis is not asked now; nil if it is.
func (r *remote) err() error {
	if r.Paused() {
		return errors.New("redis does not answer, and its keys fall back: see that it runs and can be reached")
	}
	return nil
}

// open returns the buckets of r. It connects in the background.
func (r Redis) open(log *slog.Logger, scope tally.Scope) (*remote, error) {
	p := &passwords{of: r, log: log}
	if err := p.read(); err != nil {
		return nil, err
	}
	o := redis.Options{Addresses: r.Addresses, Cluster: r.Cluster, Username: r.User, Password: p.good, Timeout: r.Timeout}
	if r.PasswordFile != "" {
		o.Credentials = p.credentials
	}
	if r.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client := redis.Client(o)
	buckets, err := redis.New(client, r.config(), redis.WithLogger(log), redis.WithScope(scope))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &remote{buckets, client.Close}, nil
}

// password is Password, or what PasswordFile begins with.
func (r Redis) password() (string, error) {
	if r.PasswordFile == "" {
		return r.Password, nil
	}
	text, err := filewatch.Read(r.PasswordFile, maxPassword)
	if err != nil {
		return "", fmt.Errorf("password of redis: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" || len(text) > maxPassword {
		return "", fmt.Errorf("password of redis: the first line of %s is to be the password, and the file at most %d bytes", r.PasswordFile, maxPassword)
	}
	return line, nil
}

// passwords follow the file of a password. Safe for concurrent use.
type passwords struct {
	of  Redis
	log *slog.Logger

	mu     sync.Mutex // protects following fields
	good   string
	logged string // why the newest one could not be read
}

// read reads the password, which stays as it is if that fails.
func (p *passwords) read() error {
	password, err := p.of.password()
	p.mu.Lock()
	defer p.mu.Unlock()

	if err == nil {
		p.good, p.logged = password, ""
	}
	return err
}

// credentials is for redis.Options.
func (p *passwords) credentials(context.Context) (user, password string, err error) {
	err = p.read()
	p.mu.Lock()
	defer p.mu.Unlock()

	if err != nil && err.Error() != p.logged {
		p.logged = err.Error()
		p.log.Error("the password of Redis cannot be read, the last good one stays", "error", err)
	}
	user = p.of.User
	if user == "" {
		user = "default"
	}
	return user, p.good, nil
}

// check warns of a Redis that no rule names.
func (r Redis) check(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	if len(r.Addresses) > 0 && !slices.Contains(limits.Algorithms(), redisName) {
		log.Warn("no rule says `algorithm: redis`: it is never asked", "redis", strings.Join(r.Addresses, ","))
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package redisbuckets opens buckets in a Redis whose password may be in a file, and change there.
//
//	buckets, err := redisbuckets.Open(options, config, redisbuckets.Login{PasswordFile: path}, log, scope)
//	defer buckets.Close()
//
// Out of scope: what the buckets do (limiter/redis). One lock guards the password.
package redisbuckets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/internal/textfile"
	"github.com/headgate/headgate/limiter/redis"
)

// maxPassword bounds the file of a password, in bytes.
const maxPassword = 4 << 10

// Login is who logs in to Redis.
type Login struct {
	// User logs in with a password; default the one that Redis calls default.
	User string
	// Password logs in; default there is no login. Or the first line of PasswordFile is the
	// password, which is read by Open and for each new connection. What is broken or gone
	// then changes nothing.
	Password, PasswordFile string
}

// Buckets are buckets in Redis, and the connections to them.
type Buckets struct {
	*redis.Buckets

	close func() error
}

// Err is why Redis is not asked now; nil if it is.
func (b *Buckets) Err() error {
	if b.Paused() {
		return errors.New("redis does not answer, and its keys fall back: see that it runs and can be reached")
	}
	return nil
}

// Close closes the connections.
func (b *Buckets) Close() error { return b.close() }

// Open returns the buckets at o, which has no login. It connects in the background.
func Open(o redis.Options, config redis.Config, login Login, log *slog.Logger, scope tally.Scope) (*Buckets, error) {
	p := &passwords{of: login, log: log}
	if err := p.read(); err != nil {
		return nil, err
	}
	o.Username, o.Password = login.User, p.good
	if login.PasswordFile != "" {
		o.Credentials = p.credentials
	}
	client := redis.Client(o)
	buckets, err := redis.New(client, config, redis.WithLogger(log), redis.WithScope(scope))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &Buckets{buckets, client.Close}, nil
}

// Read returns Password, or what PasswordFile begins with.
func (l Login) Read() (string, error) {
	if l.PasswordFile == "" {
		return l.Password, nil
	}
	text, err := filewatch.Read(l.PasswordFile, maxPassword)
	if err != nil {
		return "", fmt.Errorf("password of redis: %w", err)
	}
	line, err := textfile.FirstLine(text)
	if err != nil || len(text) > maxPassword {
		return "", fmt.Errorf("password of redis: the first line of %s is to be the password, and the file at most %d bytes", l.PasswordFile, maxPassword)
	}
	return line, nil
}

// passwords follow the file of a password. Safe for concurrent use.
type passwords struct {
	of  Login
	log *slog.Logger

	mu     sync.Mutex // protects following fields
	good   string
	logged string // why the newest one could not be read
}

// read reads the password, which stays as it is if that fails.
func (p *passwords) read() error {
	password, err := p.of.Read()
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

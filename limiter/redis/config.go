// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Defaults of Config.
const (
	DefaultPrefix   = "headgate:"
	DefaultTimeout  = 20 * time.Millisecond
	DefaultMaxCalls = 128
	DefaultFailures = 5
	DefaultPause    = time.Second
	DefaultKeep     = 10 * time.Minute
)

// Config says how Redis is asked. The zero Config has all defaults.
type Config struct {
	// Prefix begins the names of all buckets; default DefaultPrefix. It has no
	// brace. Services that share a Redis but no limits need different ones.
	Prefix string

	// Timeout is how long a call waits for Redis' answer at most; default
	// DefaultTimeout. Before that, an operation waits as long at most for one
	// of the MaxCalls. A longer Timeout rides out longer hiccups, in which
	// callers wait longer. Options.Timeout has to be as long.
	Timeout time.Duration

	// MaxCalls is how many calls this host has under way at once at most;
	// default DefaultMaxCalls. It begins with four, and has more as Redis
	// answers. New lowers it to the client's pool size, so that no call waits
	// for a connection.
	MaxCalls int

	// Failures is after how many calls without an answer Redis is not asked
	// for Pause: so many in a row, or four times as many in ten seconds if
	// they are half of all. Default DefaultFailures. Calls that were under way
	// at the same time count once, so a Redis that hangs is asked for about
	// Failures times Timeout. With fewer, fewer callers wait for it, and a
	// hiccup is more likely to pause it.
	Failures int

	// Pause is how long Redis is not asked after failures; default
	// DefaultPause. Then as many calls as Failures find out whether it is back.
	Pause time.Duration

	// Keep is how long Redis keeps a bucket after its last event, and
	// remembers the ID of a charge or a return that may be sent again; default
	// DefaultKeep. A longer Keep needs more memory: a bucket takes some 150
	// bytes, and the IDs of each host some 200.
	Keep time.Duration
}

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if strings.ContainsAny(c.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("redis: prefix %q has a brace, which means something to a Redis Cluster", c.Prefix))
	}
	if min(c.Timeout, c.Pause, c.Keep) < 0 || min(c.MaxCalls, c.Failures) < 0 {
		errs = append(errs, errors.New("redis: a timeout, a pause, or a number of calls or failures is negative; 0 is the default"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	return Config{
		Prefix:   cmp.Or(c.Prefix, DefaultPrefix),
		Timeout:  cmp.Or(c.Timeout, DefaultTimeout),
		MaxCalls: cmp.Or(c.MaxCalls, DefaultMaxCalls),
		Failures: cmp.Or(c.Failures, DefaultFailures),
		Pause:    cmp.Or(c.Pause, DefaultPause),
		Keep:     cmp.Or(c.Keep, DefaultKeep),
	}
}

// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/headgate/headgate/rpc"
)

// MaxHosts is the most hosts that Config may say share the limits.
const MaxHosts = 1_000_000

// MaxExactTimeout is the longest Config.ExactTimeout.
const MaxExactTimeout = 10 * time.Second

// Config is what a Client must know.
type Config struct {
	// Addresses are the edge ports of deciders, each a host:port. Any of
	// them answers for all keys; give two or more, so that one may be down.
	// A single one may be a DNS name of many hosts. Required.
	Addresses []string

	// Hosts is how many hosts share the limits, this one included. It only
	// matters while there is no grant, under fallback even, and to algorithms
	// that never give less than the even share. Fewer than there are lets
	// them use more than the limit when no decider answers. 1 to MaxHosts;
	// default 1. SetHosts changes it.
	Hosts int

	// Host names this host to the deciders. No two processes may have the
	// same one at a time: they would be taken for one host. Default: the
	// machine's name and some random letters, so that it is another one after
	// a restart; what the old one had comes free when its leases end.
	Host string

	// ExactTimeout bounds each call for events of exact and auto keys; when it
	// ends, the rule's fallback decides. An event may wait for two calls.
	// Higher means fewer events that fall back when deciders are slow, and
	// events that wait for longer when they are gone. 0 to MaxExactTimeout;
	// default 2.5 times the rule's ask_timeout, which is 50 ms if the rule does
	// not say: a decider may take twice the ask_timeout to find out that an
	// owner does not answer.
	ExactTimeout time.Duration

	// TLS, when not nil, encrypts. Give it certificates for mutual TLS.
	TLS *tls.Config
}

// Validate returns all that is wrong with c, but for the addresses, which New
// looks at.
func (c Config) Validate() error {
	var errs []error
	if c.Hosts < 0 || c.Hosts > MaxHosts {
		errs = append(errs, fmt.Errorf("client: %d hosts share the limits: say 1 to %d", c.Hosts, MaxHosts))
	}
	if c.ExactTimeout < 0 || c.ExactTimeout > MaxExactTimeout {
		errs = append(errs, fmt.Errorf("client: a timeout of %v for exact keys: use 0 to %v", c.ExactTimeout, MaxExactTimeout))
	}
	if len(c.Host) > rpc.MaxKeyLength {
		errs = append(errs, fmt.Errorf("client: the host's name has %d bytes: use at most %d", len(c.Host), rpc.MaxKeyLength))
	}
	return errors.Join(errs...)
}

// exactTimeout is ExactTimeout, or its default for a rule with this ask_timeout.
func (c Config) exactTimeout(askTimeout time.Duration) time.Duration {
	if c.ExactTimeout > 0 {
		return c.ExactTimeout
	}
	return askTimeout * 5 / 2
}

// host is Host or its default.
func (c Config) host() string {
	if c.Host != "" {
		return c.Host
	}
	machine, err := os.Hostname()
	if err != nil || machine == "" || len(machine) > 255 {
		machine = "host"
	}
	return machine + "/" + rand.Text()[:10]
}

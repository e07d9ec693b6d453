// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"log/slog"

	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/daemon/follow"
)

// CheckFiles returns all that is wrong with the files that c names, but for the limits, as
// Mistakes that errors.Join has joined. It opens no port, and does not look at what
// Validate checks.
func CheckFiles(c Config) error {
	log := slog.New(slog.DiscardHandler)
	return errors.Join(
		mistaken(checkCertificate(c.TLS.files(), log), "tls-cert", "tls-key", "tls-client-ca"),
		mistaken(checkCertificate(c.AdminTLS.files(), log), "admin-cert", "admin-key", "admin-client-ca"),
		mistaken(checkCertificate(c.ClusterTLS.files(), log), "cluster-cert", "cluster-key", "cluster-ca"),
		mistaken(checkRights("the policy", c.Policy, log), "policy"),
		mistaken(checkRights("the file of operators", c.Operators, log), "operators"),
		mistaken(c.checkParent(), "parent-ca"),
		mistaken(c.checkMembersFile(), "members-file"),
		mistaken(c.checkGossip(log), "gossip-keys", "gossip-address", "gossip-advertise", "cluster"),
		mistaken(c.checkPassword(), "redis-password-file"),
	)
}

func checkCertificate(files certs.Files, log *slog.Logger) error {
	if files.Cert == "" || files.Key == "" {
		return nil
	}
	_, err := certs.Open(files, log)
	return err
}

func checkRights(what, file string, log *slog.Logger) error {
	if file == "" {
		return nil
	}
	_, err := follow.Open(what, []string{file}, maxPolicy, parsePolicy, log)
	return err
}

func (c Config) checkParent() error {
	_, err := c.parentTLS(nil)
	return err
}

func (c Config) checkMembersFile() error {
	if c.MembersFile == "" {
		return nil
	}
	_, _, err := readMembers(c.MembersFile)
	return err
}

// checkGossip makes what would gossip, and does not start it.
func (c Config) checkGossip(log *slog.Logger) error {
	if len(c.Gossip.Seeds) == 0 {
		return nil
	}
	if _, err := c.seeds(log); err != nil {
		return nil // Validate says so
	}
	address := c.Address
	if dialable(address) != nil {
		address = "127.0.0.1:1" // it is known once the daemon listens
	}
	_, err := c.join(address, log)
	return err
}

func (c Config) checkPassword() error {
	_, err := c.Redis.password()
	return err
}

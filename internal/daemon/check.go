// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"log/slog"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/above"
	"github.com/headgate/headgate/internal/daemon/access"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/daemon/dialled"
	"github.com/headgate/headgate/internal/daemon/memberfile"
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
		mistaken(access.CheckPolicy("the policy", c.Policy, log), "policy"),
		mistaken(access.CheckPolicy("the file of operators", c.Operators, log), "operators"),
		mistaken(checkParent(c.parent()), "parent-ca"),
		mistaken(c.checkMembersFile(), "members-file"),
		mistaken(c.checkGossip(log), "gossip-keys", "gossip-address", "gossip-advertise", "cluster"),
		mistaken(c.checkPassword(), "redis-password-file"),
	)
}

// WarnOfLimits logs what is no mistake of limits, and surely not meant with the settings c.
func WarnOfLimits(c Config, limits *dynamicconfig.Snapshot, log *slog.Logger) {
	c.parent().Check(limits, log)
}

func checkCertificate(files certs.Files, log *slog.Logger) error {
	if files.Cert == "" || files.Key == "" {
		return nil
	}
	_, err := certs.Open(files, log)
	return err
}

func checkParent(of above.Config) error {
	_, err := of.TLS()
	return err
}

func (c Config) checkMembersFile() error {
	if c.MembersFile == "" {
		return nil
	}
	_, _, err := memberfile.Read(c.MembersFile)
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
	if dialled.Check(address, 7933) != nil {
		address = "127.0.0.1:1" // it is known once the daemon listens
	}
	_, err := c.join(address, log)
	return err
}

func (c Config) checkPassword() error {
	_, err := c.Redis.login().Read()
	return err
}

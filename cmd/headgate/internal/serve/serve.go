// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/daemon/above"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command { return []*cobra.Command{newServe(), newToken()} }

func newServe() *cobra.Command {
	var c daemon.Config
	var l logging
	var s settings
	var check, printed bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve limits to programs in any language",
		Long: `serve runs one decider of a cluster. Deciders share the keys among them and talk to each
other at --listen. Programs in any language talk gRPC to any of them at --edge: the Go
client is package limiter/client; health checks and reflection are there too. They talk
HTTP and JSON at --http, if that is set: GET /v1/openapi.json describes it. --unix serves
both to the programs of this machine, by the permissions of a file. --admin has metrics,
health and profiles for operators. With --tls-cert and --tls-key the edge and HTTP speak
TLS, with --admin-cert the address for operators, and with --cluster-cert the deciders
among each other. The Unix socket does not.

With --parent, this cluster is part of a larger one: keys whose rule says "parent: true"
share what the cluster above leases to it. The cluster above may be
unreachable at any time, also at the start.

With --redis, rules may say "algorithm: redis": their buckets are there. Its password is
the first line of --redis-password-file, or HEADGATE_REDIS_PASSWORD in the environment.

All settings may be in a file of YAML, --config, and in the environment: --tls-cert is
tls_cert there, and HEADGATE_TLS_CERT here. The command line counts before the environment,
and that before the file. The file is read at the start only.

The limits are read again whenever the file changes, or the database has a new version; what
is broken never replaces what is good. headgate limits apply makes a database of limits. All deciders must have the same limits and the same list of members.

With --seeds, deciders find each other by gossip: one that dies is off the ring of the
others in 2 seconds, one that ends in order at once. With --members and --members-file,
they ask each other, and leave out those that do not answer.

It prints a line for each endpoint when it is ready, and logs to stderr. An interrupt or
SIGTERM ends it: health checks and /readyz say no, requests are answered for --lame-duck
more, and then calls under way may take --drain to end. A second signal ends it at once.
SIGHUP changes nothing, because files are read again as they change.`,
		Example: `  headgate serve --limits limits.yaml        # alone, on this machine
  headgate serve --limits limits.yaml --http 127.0.0.1:7935
  headgate serve --limits-db /var/lib/headgate
  headgate serve --limits limits.yaml --unix /run/headgate/headgate.sock --unix-mode 0660
  headgate serve --limits limits.yaml --listen 10.0.0.7:7933 --edge 10.0.0.7:7934 \
      --members 10.0.0.7:7933,10.0.0.8:7933,10.0.0.9:7933
  headgate serve --limits limits.yaml --listen :7933 --edge :7934 \
      --address 10.0.0.7:7933 --members-file members.txt
  headgate serve --limits limits.yaml --listen 10.0.0.7:7933 --edge 10.0.0.7:7934 \
      --seeds 10.0.0.7:7946,10.0.0.8:7946
  headgate serve --limits region.yaml --parent 10.1.0.1:7934,10.1.0.2:7934 --cluster eu-west
  headgate serve --limits limits.yaml --edge :7934 --tls-cert edge.pem --tls-key edge.key --tls-client-ca programs.pem
  headgate serve --limits limits.yaml --redis 10.0.0.5:6379`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.flags = cmd.Flags()
			err := s.load()
			if printed && err == nil {
				return s.print(cmd.OutOrStdout())
			}
			if len(c.Parent) == 0 && s.from["parent-protocol"] == "" {
				c.ParentProtocol = "" // there is no cluster to ask
			}
			redisFromEnvironment(&c.Redis)
			log, unclear := l.to(cmd.ErrOrStderr())
			if !s.unread { // otherwise settings only seem to lack
				err = errors.Join(err, s.locate(errors.Join(c.Validate(), unclear)))
			}
			if check && !s.unread {
				err = errors.Join(err, s.locate(daemon.CheckFiles(c)), checkLimits(cmd, c, log))
			}
			for _, warning := range s.suspects(os.Environ()) {
				if err != nil {
					err = errors.Join(err, errors.New(warning))
					continue
				}
				log.Warn(warning)
			}
			if err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			if check {
				return nil
			}
			if salt := os.Getenv(keySalt); salt != "" {
				dynamicconfig.SaltKeys([]byte(salt))
			}
			return run(cmd.Context(), c, &l, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.file, "config", "", "`file` of YAML with any of these settings, as in tls_cert: edge.pem (default none)")
	flags.BoolVar(&printed, "print-config", false, "print all settings and where each comes from, and end")
	flags.BoolVar(&check, "check", false, "say what is wrong with the settings and the files that they name, and end")
	flags.StringVar(&c.Limits, "limits", "", "file of limits, or folder of such files, followed as it changes (required without --limits-db)")
	flags.StringVar(&c.LimitsDB, "limits-db", "", "`database` of limits, whose newest version is followed: a directory, for SQLite, postgres://USER@HOST/DATABASE or etcd://HOST:PORT (default none)")
	flags.StringVar(&c.Data, "data", "", "`directory` for a copy of the limits last in force, to start from while --limits or --limits-db is broken (default none)")
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:7933", "where to listen for other deciders; port 0 takes a free one")
	flags.StringVar(&c.Edge, "edge", "127.0.0.1:7934", "where to serve gRPC to programs; port 0 takes a free one")
	flags.StringVar(&c.HTTP, "http", "", "where to serve HTTP and JSON to programs, `host:port` (default nowhere)")
	flags.StringVar(&c.Admin, "admin", "", "where operators read metrics, health and profiles, `host:port` (default nowhere)")
	flags.IntVar(&c.TopKeys, "top-keys", daemon.DefaultTopKeys, "for how many keys --admin has metrics of their own: so many of the most used, rejected, nearest to the limit, and least even; 0 is none")
	flags.StringVar(&c.Unix, "unix", "", "`file` of a Unix socket where to serve gRPC and HTTP to programs of this machine (default none)")
	flags.Var((*mode)(&c.UnixMode), "unix-mode", "`permissions` of the Unix socket; write permission is required to connect (default 0660)")
	flags.StringVar(&c.Address, "address", "", "this decider's address as the members have it (default where it listens)")
	flags.StringVar(&c.EdgeAddress, "edge-address", "", "the edge's address as programs dial it (default where it serves)")
	flags.StringSliceVar(&c.Members, "members", nil, "addresses of all deciders, separated by commas, or a name as in dns:///headgate:7933 (default this one alone)")
	flags.StringVar(&c.MembersFile, "members-file", "", "file with the addresses of all deciders, one a line, followed as it changes")
	flags.StringSliceVar(&c.Gossip.Seeds, "seeds", nil, "where some of the others gossip, separated by commas, or a name as in dns:///headgate:7946, or file:PATH (default no gossip)")
	flags.StringVar(&c.Gossip.Listen, "gossip-address", "", "where to gossip with other deciders, TCP and UDP (default port 7946 where --listen is)")
	flags.StringVar(&c.Gossip.Advertise, "gossip-advertise", "", "where others gossip with this decider (default --gossip-address)")
	flags.StringVar(&c.Gossip.KeyFile, "gossip-keys", "", "`file` with keys in base64, one a line, the primary first, followed as it changes (default no encryption)")
	flags.StringVar(&c.Role, "role", daemon.RoleDecider, "decider, or edge for a daemon that owns no keys; edge needs --seeds")
	flags.StringVar(&c.Zone, "zone", "", "where this decider is, for weightings by the label zone; needs --seeds")
	flags.StringSliceVar(&c.Parent, "parent", nil, "edges of the cluster above, separated by commas (default none)")
	flags.StringVar(&c.ParentProtocol, "parent-protocol", above.Headgate, "how to ask the cluster above: headgate, or doorman for original servers")
	flags.StringVar(&c.Cluster, "cluster", "", "this cluster's name, the same on all its deciders (required with --parent; default headgate with --seeds)")
	flags.StringVar(&c.ParentCA, "parent-ca", "", "`file` with the authorities of the parents' certificates (default plain text)")
	flags.StringVar(&c.TLS.Cert, "tls-cert", "", "`file` with the certificate of the edge and of HTTP, followed as it changes (default plain text)")
	flags.StringVar(&c.TLS.Key, "tls-key", "", "`file` with the key of --tls-cert")
	flags.StringVar(&c.TLS.ClientCA, "tls-client-ca", "", "`file` with authorities, one of which must have signed programs' certificates (default they need none)")
	flags.StringVar(&c.Policy, "policy", "", "`file` that says which programs may use, hold and charge which keys, followed as it changes (default everybody all)")
	flags.StringVar(&c.Operators, "operators", "", "`file` that says who may see and change what at --admin, over /v1/, followed as it changes (default no one: there is no /v1/)")
	flags.StringVar(&c.AdminTLS.Cert, "admin-cert", "", "`file` with the certificate of --admin, followed as it changes (default plain text)")
	flags.StringVar(&c.AdminTLS.Key, "admin-key", "", "`file` with the key of --admin-cert")
	flags.StringVar(&c.AdminTLS.ClientCA, "admin-client-ca", "", "`file` with authorities, one of which must have signed operators' certificates (default they need none)")
	flags.StringVar(&c.ClusterTLS.Cert, "cluster-cert", "", "`file` with this decider's certificate at --listen, which it also shows to others, followed as it changes (default plain text)")
	flags.StringVar(&c.ClusterTLS.Key, "cluster-key", "", "`file` with the key of --cluster-cert")
	flags.StringVar(&c.ClusterTLS.CA, "cluster-ca", "", "`file` with the authorities of all deciders' certificates")
	flags.StringVar(&c.ClusterTLS.Name, "cluster-name", "", "a DNS `name` that all deciders' certificates have (default each has the address at which others dial it)")
	redisFlags(cmd, &c.Redis)
	flags.IntVar(&c.MaxConnections, "max-connections", daemon.DefaultMaxConnections, "connections to each of the edge, HTTP and the Unix socket; one more is closed as it comes")
	flags.DurationVar(&c.LameDuck, "lame-duck", daemon.DefaultLameDuck, "how long requests are answered after health checks say no, so that load balancers notice")
	flags.DurationVar(&c.Drain, "drain", daemon.DefaultDrain, "how long calls at the edge may take to end after that")
	l.flags(cmd)
	return cmd
}

// keySalt is the variable of the environment with the salt for the hashes of private keys.
const keySalt = "HEADGATE_KEY_SALT"

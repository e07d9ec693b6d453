// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/limiter/redis"
)

// redisPassword is the environment variable with the password. There is no such flag, because all
// users of a machine can list the flags of its processes.
const redisPassword = "HEADGATE_REDIS_PASSWORD"

func redisFlags(cmd *cobra.Command, r *daemon.Redis) {
	flags := cmd.Flags()
	flags.StringSliceVar(&r.Addresses, "redis", nil, "where Redis is, for rules with \"algorithm: redis\"; several are nodes of a Redis Cluster (default none)")
	flags.BoolVar(&r.Cluster, "redis-cluster", false, "the one address is that of a Redis Cluster's node")
	flags.DurationVar(&r.Timeout, "redis-timeout", 0, "how long a decision waits for Redis before the rule's fallback decides (default "+redis.DefaultTimeout.String()+")")
	flags.StringVar(&r.Prefix, "redis-prefix", "", "what the names of buckets begin with (default "+redis.DefaultPrefix+")")
	flags.StringVar(&r.User, "redis-user", "", "`name` to log in to Redis with (default: Redis' user called default)")
	flags.StringVar(&r.PasswordFile, "redis-password-file", "", "`file` whose first line is the password; else "+redisPassword+" is, from the environment")
	flags.BoolVar(&r.TLS, "redis-tls", false, "talk TLS with Redis")
}

// redisFromEnvironment takes the password from the environment if no flag names its file.
func redisFromEnvironment(r *daemon.Redis) {
	if len(r.Addresses) > 0 && r.PasswordFile == "" {
		r.Password = os.Getenv(redisPassword)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real Redis servers for tests, and makes them fail:
//
//	server := redistest.Start(t)      // on a free port, empty, gone with the test
//	server.Stop()                     // hangs: connections stay, nothing answers
//	server.Continue()
//	server.Kill()
//	server.Restart()                  // empty again
//	addresses := redistest.StartCluster(t, 3)
//
// It needs scripts/redis.sh of this repository. Without a redis-server, which
// that script installs if it can, tests are skipped; in CI they fail.
//
// It knows no rules and no buckets.
package redistest

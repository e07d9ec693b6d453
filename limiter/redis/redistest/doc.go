// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real Redis servers for tests, and makes them fail:
//
//	server := redistest.Start(t)      // on a free port, empty, gone with the test
//	server.Stop()                     // hangs: connections stay, nothing answers
//	server.Continue()
//	server.Kill()
//	server.Restart()                  // empty again
//	addresses := redistest.StartCluster(t, 3)
//	slow := redistest.StartProxy(t, server.Address)
//	slow.SetDelay(time.Second)       // answers are late
//	slow.SetLosing("evalsha")        // and those to such requests never arrive
//
// It needs scripts/redis.sh of this repository. Without a redis-server, which
// that script installs if it can, tests are skipped; in CI they fail.
package redistest

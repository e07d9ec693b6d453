// SPDX-License-Identifier: Apache-2.0

// Package memory is a configuration source in the process: for services
// whose rules come from their own code or their own dynamic config, and for
// tests.
//
//	source := memory.New(snapshot)
//	go live.Run(ctx, source, logger)
//	...
//	source.Set(next)
//
// Out of scope: keeping anything when the process ends. A Source is safe for concurrent use: one
// lock guards it.
package memory

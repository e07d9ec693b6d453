// SPDX-License-Identifier: Apache-2.0

// Package hosted is for services that know their hosts already, from their
// own ringpop or service discovery, and hand over the list:
//
//	members, err := hosted.New(known...)
//	if err != nil {
//		return err
//	}
//	go live.Run(ctx, members, nil)
//
//	// wherever the service learns of a change:
//	if err := members.Set(hosts); err != nil {
//		log.Warn("hosts not taken over", "error", err)
//	}
//
// Set never waits for those who watch. A slow watcher sees the newest list,
// not every list in between.
//
// Out of scope: finding hosts, and whether they are up. One lock guards the hosts.
package hosted

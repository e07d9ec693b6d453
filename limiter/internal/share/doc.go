// SPDX-License-Identifier: Apache-2.0

// Package share is what this host holds of one key: its part of the limit
// while a grant is valid, and what the rule's fallback gives without one.
//
//	grant valid ──▶ the bucket runs at the grant's rate,     the fallback's
//	                                                         tokens are kept
//	lease over  ──▶ the bucket runs at the fallback's rate,  the grant's
//	                                                         tokens are kept
//
// There are two kinds: Rate is a part of a limit in events/s, a stage.Stage
// around a bucket, and Slots a part of a limit on what is in flight, with
// stage.Slots. Both are a Part, which reports are made from.
//
//	r := share.NewRate(now, "frontend:orders", terms, hosts, math.Inf(1))
//	ok := r.TakeOne(now)
//	r.SetGrant(share.Grant{Given: true, Weight: 0.9, Until: now.Add(lease)})
//	r.Steer(now, hosts) // puts the grant in force
//
// Methods that decide are safe for concurrent use. Methods that change a Part's
// grant, terms or hosts are for one caller at a time: the Group's lock guards them.
//
// The package knows neither when reports are sent nor who answers them.
package share

// SPDX-License-Identifier: Apache-2.0

// Package redis keeps the buckets of keys in Redis, which is asked for each
// event:
//
//	client := redis.Client(redis.Options{Addresses: []string{"localhost:6379"}})
//	defer client.Close()
//	buckets, err := redis.New(client, redis.Config{})
//	…
//	node, err := headgate.New(config, source, members, headgate.WithRemote("redis", buckets))
//
// and in limits.yaml
//
//	limits:
//	  - key: "login:*"
//	    limit: 5/m
//	    algorithm: redis
//
// A bucket is one small value, which a script reads and writes by Redis' own
// clock. Its name comes from the key alone: when the rule changes, the bucket
// keeps its tokens. The slower of both rules counts for the time between its
// last event before the change and the first one after it. A debt that is deeper
// than the new rule's charges make takes no longer to pay than before.
//
// Redis keeps a bucket until it would be full, and for Config.Keep (10 minutes)
// after its last event at least. So when a limit is lowered, a key that was
// quiet for less than that has no more tokens than the lower limit allows. One
// that was quiet for longer starts full: that is one burst more, once.
//
// # When Redis does not answer
//
// An event waits at most Config.Timeout until one of Config.MaxCalls is free,
// and at most Config.Timeout for the answer. Only the latter says anything
// about Redis. After some failures in a row it is paused: the rule's fallback
// decides at once, and a few events find out whether Redis is back. Nothing is
// let through because Redis does not answer, unless the rule says
// `fallback: open`.
//
// These count neither as a success nor as a failure of Redis: a caller that
// went away, a host that is too busy (stage.ErrBusy), and a call that fails
// together with another one. A value that is not a bucket (stage.ErrNonsense)
// costs its own key only.
//
// # What is lost
//
// A take whose answer is lost is never sent again and not given back. When
// Redis stops answering, those are the calls under way, at most
// Config.MaxCalls, and then four for each of Config.Failures; and at most
// Config.Failures each time Redis is tried again.
//
// An event whose caller has less time than recent answers took is not sent
// (ErrTooLate), but for one each Config.Pause, which shows whether Redis is
// quicker now. So callers in a hurry waste at most that one event's tokens, and
// those that were under way when Redis became slower. Callers that cancel
// cannot be foreseen: what was sent for them stays taken.
//
// A charge or a return that is sent again under the same ID changes nothing for
// Config.Keep (10 minutes) after it was carried out. Sent again later, it takes
// or gives its tokens once more.
//
// A bucket learns of a new limit with the key's next event, and fills by it for
// the time since the event before. So a key that lacks tokens and has no events
// while its limit is raised has more of them at its next event than came in.
//
// When Redis' clock goes forward, buckets fill as if that time had passed. When it goes back, as after a
// failover to a machine whose clock is behind, they keep their tokens and fill from there.
//
// A Redis that loses its data starts with full buckets: that is one burst more
// for each key. One that has become a replica refuses to write, which is a
// failure.
//
// # Requirements
//
// Redis 5 or newer, alone, behind Sentinels, or a Redis Cluster: the limited
// key is the hash tag of all names. The user needs EVAL, EVALSHA, TIME, GET,
// SET and DEL.
//
// Out of scope: rules for slots in flight, which are shared by leases.
package redis

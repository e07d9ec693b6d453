// SPDX-License-Identifier: Apache-2.0

// Package redis keeps the buckets of keys in Redis, which every event asks:
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
// A bucket is one small value, which a script reads and writes on Redis' own
// clock. Its name comes from the key alone: when the rule changes, the bucket
// keeps its tokens. It expires when it would be full.
//
// # When Redis does not answer
//
// Each event waits for it for at most Config.Timeout. After some failures in a
// row, nobody asks for a while: the rule's fallback decides at once, and single
// events find out whether Redis is back. Nothing is let through because Redis
// does not answer, unless the rule says `fallback: open`.
//
// What Redis has done without its answer being heard is not undone: those
// tokens are gone. They are those of the events that were under way, at most
// Config.MaxCalls and 5 more a round, each of which the fallback has decided
// instead. A Redis that loses its data begins with full buckets: that is one
// more burst for each key. One that has become a replica refuses to write,
// which is a failure.
//
// # What it needs
//
// Redis 5 or newer, alone, behind Sentinels, or a Redis Cluster: each bucket is
// one key, whose name has the limited key as its hash tag. The user needs
// EVAL, EVALSHA, TIME, GET, SET and DEL.
//
// Out of scope: rules for slots in flight, which are shared by leases.
package redis

// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/limiter/stage"
)

// Buckets whose collaborators are nil work with their defaults, and say so if there is no client.
func TestBucketsWorkWithoutWhatIsNil(t *testing.T) {
	client := redis.Client(redis.Options{Addresses: []string{"127.0.0.1:1"}, Connections: -1, Timeout: -time.Second})
	defer client.Close()
	redis.LogTo(nil)
	for name, option := range map[string]redis.Option{
		"option": nil, "logger": redis.WithLogger(nil), "scope": redis.WithScope(nil), "clock": redis.WithClock(nil),
	} {
		b, err := redis.New(client, redis.Config{Failures: 1}, option)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 2 { // the second is not asked
			if _, err := b.Do(context.Background(), stage.Operation{Key: "k", Rule: &dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 1}, N: 1}); err == nil {
				t.Errorf("%s: nobody answers, and there is an answer", name)
			}
		}
	}
	if _, err := redis.New(nil, redis.Config{}); err == nil {
		t.Error("there are buckets without a client")
	}
}

// Without an address, the library would connect to a Redis on this machine, where each host has
// a bucket of its own.
func TestAClientWithoutAnAddressIsRefused(t *testing.T) {
	for _, addresses := range [][]string{nil, {""}, {"127.0.0.1:1", ""}} {
		client := redis.Client(redis.Options{Addresses: addresses})
		if _, err := redis.New(client, redis.Config{}); err == nil || !strings.Contains(err.Error(), "give Options.Addresses") {
			t.Errorf("%q: %v", addresses, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A client that gives up before Config.Timeout would end each call at its own time.
func TestAClientThatWaitsForLessThanTheTimeoutIsRefused(t *testing.T) {
	for _, tt := range []struct {
		config, client time.Duration
		cluster, ok    bool
	}{
		{0, 0, false, true},
		{0, time.Millisecond, false, true},
		{time.Second, time.Second, false, true},
		{time.Second, time.Second, true, true},
		{time.Second, 0, false, false},
		{time.Second, 0, true, false},
		{time.Second, time.Second - 1, false, false},
	} {
		client := redis.Client(redis.Options{Addresses: []string{"127.0.0.1:1"}, Timeout: tt.client, Cluster: tt.cluster})
		if _, err := redis.New(client, redis.Config{Timeout: tt.config}); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "set Options.Timeout") {
			t.Errorf("%+v: %v", tt, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

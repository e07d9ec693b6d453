// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/uber/cadence/common/dynamicconfig"
	"github.com/uber/cadence/common/dynamicconfig/dynamicproperties"
	"github.com/uber/cadence/common/log"
	"github.com/uber/cadence/common/membership"
	"github.com/uber/cadence/common/metrics"
	"github.com/uber/cadence/common/quotas"
	"github.com/uber/cadence/common/quotas/global/collection"
	"github.com/uber/cadence/common/quotas/global/rpc"
	"github.com/uber/cadence/common/quotas/global/shared"
	"github.com/uber/cadence/common/quotas/permember"
)

// cadence is a collection as Cadence's frontend makes it, with its file-based
// dynamic config, but without metrics, which would take the most of each round
// with many keys. Its update loop runs a round whenever tick says so.
type cadence struct {
	*collection.Collection

	asked  chan map[shared.GlobalKey]rpc.Calls // a round gathered usage, and waits
	answer chan map[shared.GlobalKey]rpc.UpdateEntry
	stop   chan struct{}
}

// newCadence returns one in which all keys have used their limit once and have
// been granted all of it.
func newCadence(b *testing.B, mode string, limit int, keys ...string) *cadence {
	b.Helper()
	config := cadenceConfig(b, "frontend.globalRatelimiterMode:\n- value: "+mode+
		"\nfrontend.globalDomainrps:\n- value: "+strconv.Itoa(limit)+
		"\nfrontend.domainrps:\n- value: "+strconv.Itoa(limit)+"\n")
	target := config.GetIntPropertyFilteredByDomain(dynamicproperties.FrontendGlobalDomainUserRPS)
	local := func() quotas.ICollection {
		return quotas.NewCollection(permember.NewPerMemberDynamicRateLimiterFactory("frontend", target,
			config.GetIntPropertyFilteredByDomain(dynamicproperties.FrontendMaxDomainUserRPSPerInstance), tenMembers{}))
	}
	c := &cadence{
		asked:  make(chan map[shared.GlobalKey]rpc.Calls),
		answer: make(chan map[shared.GlobalKey]rpc.UpdateEntry),
		stop:   make(chan struct{}),
	}
	var err error
	c.Collection, err = collection.New("user", local(), local(),
		// The loop is to be ready again at once; tick says when.
		func(...dynamicproperties.FilterOption) time.Duration { return time.Nanosecond },
		target,
		config.GetStringPropertyFilteredByRatelimitKey(dynamicproperties.FrontendGlobalRatelimiterMode),
		c, log.NewNoop(), metrics.NewNoopMetricsClient())
	if err != nil {
		b.Fatal(err)
	}
	for _, key := range keys {
		c.For(key).Allow()
	}
	if mode == "local" || mode == "disabled" {
		return c // nothing is asked
	}
	if err := c.OnStart(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		close(c.stop)
		var err error
		for range 100 { // it gives itself a tenth of a second, and a round may take longer
			if err = c.OnStop(context.Background()); err == nil {
				return
			}
		}
		b.Error(err)
	})
	if n := len(<-c.asked); n != len(keys) {
		b.Fatalf("%d keys of %d were reported", n, len(keys))
	}
	c.tick(c.grants(keys))
	return c
}

// tick answers the round that waits, and returns when the next one does.
func (c *cadence) tick(grants map[shared.GlobalKey]rpc.UpdateEntry) {
	c.answer <- grants
	<-c.asked
}

// grants are all of the limit for each key.
func (c *cadence) grants(keys []string) map[shared.GlobalKey]rpc.UpdateEntry {
	m := make(map[shared.GlobalKey]rpc.UpdateEntry, len(keys))
	for _, key := range keys {
		m[shared.GlobalKey("user:"+key)] = rpc.UpdateEntry{Weight: 1, UsedRPS: 100}
	}
	return m
}

// Update implements rpc.Client: it stands for the owners.
func (c *cadence) Update(_ context.Context, _ time.Duration, load map[shared.GlobalKey]rpc.Calls) rpc.UpdateResult {
	select {
	case c.asked <- load:
	case <-c.stop:
		return rpc.UpdateResult{}
	}
	select {
	case weights := <-c.answer:
		return rpc.UpdateResult{Weights: weights}
	case <-c.stop:
		return rpc.UpdateResult{}
	}
}

// cadenceConfig is a dynamic config that was read from a file with this text.
func cadenceConfig(b *testing.B, text string) *dynamicconfig.Collection {
	b.Helper()
	file := filepath.Join(b.TempDir(), "cadence.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	b.Cleanup(func() { close(done) })
	client, err := dynamicconfig.NewFileBasedClient(
		&dynamicconfig.FileBasedClientConfig{Filepath: file, PollInterval: time.Hour}, log.NewNoop(), done)
	if err != nil {
		b.Fatal(err)
	}
	return dynamicconfig.NewCollection(client, log.NewNoop())
}

// tenMembers is a cluster of ten hosts.
type tenMembers struct{ membership.Resolver }

func (tenMembers) MemberCount(string) (int, error) { return 10, nil }

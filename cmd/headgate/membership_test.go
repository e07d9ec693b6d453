// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/gossip"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
)

const (
	memberLimit, memberBurst = 400, 100

	memberRules = `
defaults: {update_interval: 200ms, lease: 2s}
limits:
  - {key: "k*", limit: 400/s, burst: 100}
  - {key: "x*", limit: 400/s, burst: 100, algorithm: exact}
`
)

// memberCluster is daemons that know each other in one way.
type memberCluster struct {
	nodes  []*treeNode
	admins []string
	limits string
}

// newMemberCluster starts size daemons. Without gossip they have a fixed list; without rules,
// more says where the limits are.
func newMemberCluster(t *testing.T, size int, gossip bool, rules string, more ...string) *memberCluster {
	t.Helper()
	return newMemberClusterBy(t, nil, size, gossip, rules, more...)
}

// newMemberClusterBy is newMemberCluster by a function that starts processes.
func newMemberClusterBy(t *testing.T, begin func(*exec.Cmd) error, size int, gossip bool, rules string, more ...string) *memberCluster {
	t.Helper()
	inTurn()
	c := &memberCluster{limits: filepath.Join(t.TempDir(), "limits.yaml")}
	if rules != "" {
		write(t, c.limits, rules)
		more = append([]string{"--limits", c.limits}, more...)
	}
	free := addresstest.Free(t, 4*size)
	for i := range size {
		args := append([]string{"--admin", free[3*size+i]}, more...)
		if gossip {
			args = append(args, "--gossip-address", free[2*size+i], "--seeds", free[2*size]+","+free[2*size+1])
		} else {
			args = append(args, "--members", strings.Join(free[:size], ","))
		}
		c.nodes = append(c.nodes, &treeNode{t: t, cluster: free[i], edge: free[size+i], args: args, begin: begin})
		c.admins = append(c.admins, free[3*size+i])
	}
	for _, n := range c.nodes {
		n.start()
	}
	for i := range c.nodes {
		eventually(t, "all know each other", func() bool { return c.up(i) == size })
	}
	return c
}

// sees is what daemon i knows, by headgate cluster.
func (c *memberCluster) sees(i int) map[string]operators.Member {
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"cluster", "--admin", c.admins[i], "-o", "json"})
	var cluster operators.Cluster
	if root.Execute() != nil || json.Unmarshal([]byte(out.String()), &cluster) != nil {
		return nil
	}
	members := make(map[string]operators.Member)
	for _, m := range cluster.Members {
		members[m.Address] = m
	}
	return members
}

// up is how many members own keys, as daemon i sees them.
func (c *memberCluster) up(i int) (n int) {
	for _, m := range c.sees(i) {
		if m.State == ringpop.Up && m.Share > 0 {
			n++
		}
	}
	return n
}

// joined waits until all daemons have logged that the host at address owns keys. One that answers nothing
// owns them for some seconds only.
func (c *memberCluster) joined(t *testing.T, address string) {
	t.Helper()
	for _, n := range c.nodes {
		eventually(t, "it owns keys", func() bool {
			return strings.Contains(n.process.logged(), `msg="member is there" member=`+address+" observer=false")
		})
	}
}

// owned returns a key of the daemon at address, of those that begin with prefix.
func (c *memberCluster) owned(t *testing.T, prefix, address string) string {
	t.Helper()
	var hosts []ringpop.Host
	for _, n := range c.nodes {
		hosts = append(hosts, ringpop.Host{Address: n.cluster})
	}
	ring, err := ringpop.New(hosts, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if key := fmt.Sprint(prefix, i); ring.Owner(key) == address {
			return key
		}
	}
}

// decided reports whether the owner of an exact key answers by way of the daemon that d dials.
func decided(ctx context.Context, d *rpcgrpc.Client, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	payload, err := usage.EncodeTakes(&usage.Takes{Rows: []usage.Take{{Key: key}}})
	if err != nil {
		return false
	}
	answer, err := d.Update(ctx, "probe", payload)
	var taken usage.Taken
	return err == nil && usage.DecodeTaken(answer, 1, &taken) == nil && taken.Rows[0].Decided
}

func TestKeysOfALostOwnerAreDecidedByAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits until they are missed")
	}
	for _, gossip := range []bool{true, false} {
		t.Run(fmt.Sprintf("gossip=%v", gossip), func(t *testing.T) {
			t.Parallel()
			c := newMemberCluster(t, 3, gossip, memberRules, "--lame-duck", "1s")
			for victim, fault := range []string{"kill", "hang", "end"} {
				c.lose(t, victim, fault, gossip)
			}
		})
	}
}

// A member that gossips and answers no other host is off the ring at all others in 5 seconds,
// and back when it answers.
func TestAMemberThatGossipsAndDoesNotDecide(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits until one is missed")
	}
	t.Parallel()
	at := addresstest.Free(t, 2)
	c := newMemberCluster(t, 2, true, memberRules)
	with := &memberCluster{nodes: append([]*treeNode{{cluster: at[0]}}, c.nodes...)}
	probed := with.owned(t, "x", at[0])
	l, err := net.Listen("tcp", at[0])
	if err != nil {
		t.Fatal(err)
	}
	hush := silent(t, l)
	began, waited := time.Now(), waits()
	c.impostor(t, at[0], at[1])
	for i, n := range c.nodes {
		d, err := rpcgrpc.NewClient([]string{n.edge}, rpcgrpc.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		eventually(t, "another decides", func() bool { return decided(t.Context(), d, probed) })
		t.Logf("another decides after %v", time.Since(began).Round(10*time.Millisecond))
		eventually(t, "it is missed", func() bool { return c.up(i) == 2 })
		// A busy machine also loses what it gossips.
		eventually(t, "it is missed because it does not decide", func() bool {
			m := c.sees(i)[at[0]]
			return m.State == ringpop.Down && m.Share == 0 && (strings.Contains(m.Why, "it gossips") || waited.starved())
		})
	}

	hush()
	if l, err = net.Listen("tcp", at[0]); err != nil {
		t.Fatal(err)
	}
	nonsense(t, l) // answers what others ask
	for i := range c.nodes {
		eventually(t, "it is back", func() bool {
			m := c.sees(i)[at[0]]
			return c.up(i) == 3 && m.State == ringpop.Up && m.Share > 0
		})
	}
}

// impostor has all daemons take a host for an owner of keys, of which there is nothing but its gossip: the test
// answers at its address.
func (c *memberCluster) impostor(t *testing.T, address, gossips string) {
	t.Helper()
	seed := c.nodes[0].args[slices.Index(c.nodes[0].args, "--gossip-address")+1]
	m, err := gossip.New(gossip.Config{
		Cluster: "headgate", Host: ringpop.Host{Address: address}, Listen: gossips, Seeds: gossip.List(seed), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	watching, stop := context.WithCancel(context.Background())
	go func() { watched <- m.Watch(watching, func([]ringpop.Host) {}) }() // from then on it owns keys
	t.Cleanup(func() {
		stop()
		<-watched
		_ = m.Stop()
	})
	c.joined(t, address)
}

// lose has a daemon fail and return, under traffic.
func (c *memberCluster) lose(t *testing.T, victim int, fault string, gossip bool) {
	t.Helper()
	v := c.nodes[victim]
	key := c.owned(t, "k", v.cluster)
	probed := c.owned(t, "x", v.cluster)
	var edges []string
	var others []int
	for i, n := range c.nodes {
		edges = append(edges, n.edge)
		if i != victim {
			others = append(others, i)
		}
	}
	var clients []*client.Client
	for range 3 {
		limited, err := client.New(client.Config{Addresses: edges, Hosts: 3}, file.New(c.limits), client.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer limited.Close()
		clients = append(clients, limited)
	}
	eventually(t, "all have grants", func() bool {
		for _, limited := range clients {
			if limited.For(key).Allow(); share(limited, key).Fallback {
				return false
			}
		}
		return true
	})
	var through []*rpcgrpc.Client
	lines := make(map[int]int)
	for _, i := range others {
		d, err := rpcgrpc.NewClient([]string{c.nodes[i].edge}, rpcgrpc.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		eventually(t, "the owner answers", func() bool { return decided(t.Context(), d, probed) })
		through = append(through, d)
		lines[i] = strings.Count(c.nodes[i].process.logged(), "own its keys now")
	}

	var stop atomic.Bool
	allowed, began, waited := make(chan float64), time.Now(), waits()
	go func() {
		n := 0.
		for !stop.Load() {
			from := time.Now()
			n += drive(clients, []string{key}, 4*memberLimit, 500*time.Millisecond)[key] * time.Since(from).Seconds()
		}
		allowed <- n
	}()
	failed := time.Now()
	switch fault {
	case "kill":
		v.kill()
	case "end":
		v.stop()
	case "hang":
		if err := v.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range through {
		if fault == "end" && !decided(t.Context(), d, probed) && !waited.starved() {
			t.Error("an owner ends in order, and no other decides its keys when it has ended")
		}
		eventually(t, "another decides", func() bool { return decided(t.Context(), d, probed) })
	}
	t.Logf("%s: another decides after %v", fault, time.Since(failed).Round(10*time.Millisecond))
	for _, i := range others {
		want := ringpop.Down
		if fault == "end" {
			want = ringpop.Left
		}
		eventually(t, fmt.Sprintf("after %s it is missed, and %s", fault, want), func() bool {
			m := c.sees(i)[v.cluster]
			return c.up(i) == 2 && m.State == want && m.Why != "" && m.Share == 0
		})
		n := 0
		eventually(t, "a survivor logs it", func() bool {
			n = strings.Count(c.nodes[i].process.logged(), "own its keys now") - lines[i]
			return n > 0
		})
		if n > 1 && !waited.starved() { // a survivor that waits is missed too, for a while
			t.Errorf("%s: %d lines in a survivor's log, want one", fault, n)
		}
	}
	returned := time.Now()
	if fault == "hang" {
		if err := v.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	} else {
		v.start()
	}
	for i := range c.nodes {
		eventually(t, "it is back", func() bool { return c.up(i) == 3 })
	}
	for _, d := range through {
		eventually(t, "the owner decides again", func() bool { return decided(t.Context(), d, probed) })
	}
	t.Logf("%s: back %v after its return", fault, time.Since(returned).Round(10*time.Millisecond))
	drive(clients, nil, 1, 2*time.Second) // while the traffic goes on: a lease
	stop.Store(true)
	n, took := <-allowed, time.Since(began).Seconds()
	// The bucket was full at first, and may be so once more for each change of owner.
	most := 1.05*memberLimit*took + 3*memberBurst
	if waited.starved() { // programs that are late use grants that others have, too, or the fallback
		most += memberLimit*took + memberBurst
	}
	t.Logf("%s: %.0f allowed in %.1f s, %.2f of the limit; the bound is %.0f", fault, n, took, n/took/memberLimit, most)
	if n > most {
		t.Errorf("%s: %.0f allowed, want at most %.0f", fault, n, most)
	}
}

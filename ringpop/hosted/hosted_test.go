// SPDX-License-Identifier: Apache-2.0

package hosted_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

func TestWatchTellsTheListAtOnceAndEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := mustNew(t, "a")
		var told []string
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go watch(t, ctx, members, func(hosts []ringpop.Host) { told = append(told, names(hosts)) })

		for _, step := range []struct {
			set  []ringpop.Host
			want string // all that was told so far
		}{
			{at("a"), "a"}, // the same list is no change
			{at("a", "b"), "a, a+b"},
			{at("b", "b"), "a, a+b"}, // refused
			{at("b"), "a, a+b, b"},
			{nil, "a, a+b, b, none"},
			{at("c"), "a, a+b, b, none, c"},
		} {
			synctest.Wait()
			err := members.Set(step.set)
			if refused := names(step.set) == "b+b"; (err != nil) != refused {
				t.Errorf("Set(%s) = %v", names(step.set), err)
			}
			synctest.Wait()
			if got := strings.Join(told, ", "); got != step.want {
				t.Errorf("after Set(%s) told %s, want %s", names(step.set), got, step.want)
			}
		}
	})
}

func TestASlowWatcherSeesTheNewestListAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := mustNew(t, "first")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var slow, quick []string
		goOn := make(chan struct{})
		go watch(t, ctx, members, func(hosts []ringpop.Host) {
			slow = append(slow, names(hosts))
			<-goOn
		})
		go watch(t, ctx, members, func(hosts []ringpop.Host) { quick = append(quick, names(hosts)) })
		synctest.Wait()

		for i := range 3 { // would wait for ever if Set waited for the slow one
			set(t, members, fmt.Sprint(i))
			synctest.Wait()
		}
		close(goOn)
		synctest.Wait()
		if want := []string{"first", "2"}; !slices.Equal(slow, want) {
			t.Errorf("the slow one saw %q, want %q", slow, want)
		}
		if want := []string{"first", "0", "1", "2"}; !slices.Equal(quick, want) {
			t.Errorf("the quick one saw %q, want %q", quick, want)
		}
	})
}

func TestUpdateMaySet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := mustNew(t, "a")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var told []string
		go watch(t, ctx, members, func(hosts []ringpop.Host) {
			told = append(told, names(hosts))
			set(t, members, "b")
		})
		synctest.Wait()
		if want := []string{"a", "b"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestWatchTellsNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := mustNew(t, "a")
		ctx, stop := context.WithCancel(t.Context())
		told := 0
		go watch(t, ctx, members, func([]ringpop.Host) { told++ })
		synctest.Wait()
		set(t, members, "b")
		stop() // before the watcher runs: it may see b, or the end first
		synctest.Wait()
		before := told
		set(t, members, "c")
		synctest.Wait()
		if told != before {
			t.Error("told after the end")
		}
		watch(t, ctx, members, func([]ringpop.Host) { t.Error("told by a watch that began after the end") })
	})
}

func TestListsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := at("a", "b")
		members, err := hosted.New(given...)
		if err != nil {
			t.Fatal(err)
		}
		given[0].Address = "changed by the caller"
		for range 2 {
			ctx, stop := context.WithCancel(t.Context())
			go watch(t, ctx, members, func(hosts []ringpop.Host) {
				if got := names(hosts); got != "a+b" {
					t.Errorf("told %s, want a+b", got)
				}
				hosts[0].Address = "spoiled"
			})
			synctest.Wait()
			stop()
			synctest.Wait()
		}
	})
}

func TestNewRefusesBadLists(t *testing.T) {
	for want, h := range map[string]ringpop.Host{
		"has no address": {Identity: "x"},
		`member "10.0.0.8" is not host:port: write it as in 10.0.0.7:7933`: {Address: "10.0.0.8"},
		`write it as in zone=a`: {Address: "10.0.0.8:7933", Labels: "version=2, zone:a"},
	} {
		members, err := hosted.New(h)
		if err == nil || !strings.Contains(err.Error(), want) || members != nil {
			t.Errorf("New(%+v) = %v, %v; want %s", h, members, err, want)
		}
	}
}

// TestEveryoneEndsUpWithTheNewestList runs under the race detector.
func TestEveryoneEndsUpWithTheNewestList(t *testing.T) {
	var members hosted.Members
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watching, setting sync.WaitGroup
	for range 4 {
		watching.Go(func() {
			once, end := context.WithCancel(ctx)
			watch(t, once, &members, func(hosts []ringpop.Host) {
				if names(hosts) == "last" {
					end()
				}
			})
		})
	}
	for w := range 2 {
		setting.Go(func() {
			for i := range 100 {
				set(t, &members, fmt.Sprintf("%d-%d", w, i))
			}
		})
	}
	setting.Wait()
	set(t, &members, "last")
	watching.Wait()
}

func Example() {
	members, err := hosted.New(ringpop.Host{Address: "10.0.0.1:7933"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	live := ringpop.NewLive(0)
	err = live.Run(ctx, members, func(_, ring *ringpop.Ring) {
		fmt.Println("the ring has", ring.Len(), "hosts")
		if ring.Len() == 2 {
			stop() // a service goes on instead
			return
		}
		// Elsewhere, discovery learns of a second host.
		if err := members.Set([]ringpop.Host{{Address: "10.0.0.1:7933"}, {Address: "10.0.0.2:7933"}}); err != nil {
			fmt.Println(err)
		}
	})
	fmt.Println(live.Ring().Has("10.0.0.2:7933"), err)
	// Output:
	// the ring has 1 hosts
	// the ring has 2 hosts
	// true <nil>
}

func watch(t *testing.T, ctx context.Context, members ringpop.Members, update func([]ringpop.Host)) {
	if err := members.Watch(ctx, update); err != nil {
		t.Error(err)
	}
}

func mustNew(t *testing.T, addresses ...string) *hosted.Members {
	t.Helper()
	members, err := hosted.New(at(addresses...)...)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func set(t *testing.T, members *hosted.Members, address string) {
	t.Helper()
	if err := members.Set(at(address)); err != nil {
		t.Error(err)
	}
}

const port = ":7933"

func at(addresses ...string) []ringpop.Host {
	hosts := make([]ringpop.Host, len(addresses))
	for i, a := range addresses {
		hosts[i].Address = a + port
	}
	return hosts
}

func names(hosts []ringpop.Host) string {
	if len(hosts) == 0 {
		return "none"
	}
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = strings.TrimSuffix(h.Address, port)
	}
	return strings.Join(all, "+")
}

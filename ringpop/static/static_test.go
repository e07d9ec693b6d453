// SPDX-License-Identifier: Apache-2.0

package static_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

func TestWatchTellsTheListOnceAndWaits(t *testing.T) {
	given := []ringpop.Host{{Address: "b:1"}, {Address: "a:1", Identity: "x"}}
	want := slices.Clone(given)
	members, err := static.New(given...)
	if err != nil {
		t.Fatal(err)
	}
	given[0].Address = "changed by the caller"
	for range 2 { // the second watch sees the list that the first one spoiled
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			told, returned := 0, false
			go func() {
				err := members.Watch(ctx, func(hosts []ringpop.Host) {
					told++
					if !slices.Equal(hosts, want) {
						t.Errorf("told %v, want %v", hosts, want)
					}
					hosts[0].Address = "spoiled"
				})
				if err != nil {
					t.Error(err)
				}
				returned = true
			}()
			synctest.Wait()
			if told != 1 || returned {
				t.Errorf("told %d times, returned: %v; want once, and to wait", told, returned)
			}
			stop()
			synctest.Wait()
			if told != 1 || !returned {
				t.Errorf("told %d times, returned: %v; want once, and an end", told, returned)
			}
		})
	}
}

func TestWatchTellsNothingAfterTheEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := new(static.Members).Watch(ctx, func([]ringpop.Host) { t.Error("told after the end") })
	if err != nil {
		t.Error(err)
	}
}

func TestNewRefusesBadLists(t *testing.T) {
	for want, host := range map[string]ringpop.Host{
		`"a:1" is listed more than once`:                                                 {Address: "a:1"},
		`member "b" is not host:port: write it as in 10.0.0.7:7933`:                      {Address: "b"},
		`member ":1" is not one that other hosts can call: write it as in 10.0.0.7:7933`: {Address: ":1"},
		`label "zone:a" of host "b:1" has no value: write it as in zone=a`:               {Address: "b:1", Labels: "zone:a"},
	} {
		members, err := static.New(ringpop.Host{Address: "a:1", Labels: "old,zone=a,at=10.0.0.7:7933"}, host)
		if err == nil || !strings.Contains(err.Error(), want) || members != nil {
			t.Errorf("New with %+v = %v, %v; want %s", host, members, err, want)
		}
	}
}

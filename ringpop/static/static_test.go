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
	given := []ringpop.Host{{Address: "b"}, {Address: "a", Identity: "x"}}
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
	members, err := static.New(ringpop.Host{Address: "a"}, ringpop.Host{Address: "a"})
	if err == nil || !strings.Contains(err.Error(), `"a" is listed more than once`) || members != nil {
		t.Errorf("New = %v, %v; want an error that names a", members, err)
	}
}

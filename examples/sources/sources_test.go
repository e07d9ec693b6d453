// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/ringpop"
)

var (
	_ dynamicconfig.Source = (*Limits)(nil)
	_ ringpop.Members      = Hosts{}
)

func TestLimits(t *testing.T) {
	sourcetest.Source(t, func(*testing.T) sourcetest.Place {
		var store atomic.Pointer[string]
		return sourcetest.Place{
			Source: &Limits{Every: 10 * time.Millisecond, Read: func(ctx context.Context) ([]byte, error) {
				if text := store.Load(); text != nil {
					return []byte(*text), ctx.Err()
				}
				return nil, errors.New("the store has no limits")
			}},
			Put:   func(text string) { store.Store(&text) },
			Break: func() { store.Store(nil) },
		}
	})
}

func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		answers := map[time.Duration][]string{ // none in the seconds between
			1 * time.Second: {"b:1", "a:1"},
			2 * time.Second: {"a:1", "b:1"},
			4 * time.Second: {},
			5 * time.Second: {"c:1"},
		}
		hosts := Hosts{Every: time.Second, Addresses: func(context.Context) ([]string, error) {
			if addresses, ok := answers[time.Since(began)]; ok {
				return addresses, nil
			}
			return nil, errors.New("no answer")
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var got []string
		if err := hosts.Watch(ctx, func(all []ringpop.Host) {
			got = append(got, fmt.Sprint(time.Since(began), all))
		}); err != nil {
			t.Fatal(err)
		}
		want := []string{"1s [{a:1  } {b:1  }]", "4s []", "5s [{c:1  }]"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A discovery may answer with a list that it changes afterwards.
func TestHostsKeepNoListOfTheDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, asked := []string{"b:1", "a:1"}, 0
		hosts := Hosts{Every: time.Second, Addresses: func(context.Context) ([]string, error) {
			if asked++; asked == 2 {
				list[0] = "c:1"
			}
			return list, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var got []string
		if err := hosts.Watch(ctx, func(all []ringpop.Host) { got = append(got, fmt.Sprint(all)) }); err != nil {
			t.Fatal(err)
		}
		want := []string{"[{a:1  } {b:1  }]", "[{a:1  } {c:1  }]"}
		if !reflect.DeepEqual(got, want) || list[1] != "a:1" {
			t.Errorf("%q, want %q; the discovery has %q", got, want, list)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// wanting is the account of hosts that want as much.
type wanting struct {
	account.Account
	wants *float64
}

func (w wanting) Demand(yield func(account.Band) bool) {
	yield(account.Band{Clients: 1, Wants: *w.wants})
}

// looked counts how often the lock of a key is taken.
type looked struct{ times int }

func (l *looked) Lock(now time.Duration) time.Duration { l.times++; return now }
func (l *looked) Unlock()                              {}

func none() *Client {
	return NewClient(slog.New(slog.DiscardHandler), func() time.Duration { return 0 }, func() {})
}

// Ask comes ten times a second. It looks at no key that has nothing to claim yet.
func TestAskLooksAtNoLeaseThatIsNotDue(t *testing.T) {
	c, lock, wants, rule := none(), new(looked), 10., &dynamicconfig.Rule{Limit: 100, Burst: 100, Parent: true}
	for i := range 1000 {
		c.Raise(0, Key{Text: fmt.Sprint(i), Account: wanting{wants: &wants}, Lock: lock, Leased: func(time.Duration) {}}, rule, false, time.Second)
	}
	asked := c.Ask(0, "region")
	answer := claims.Lease{Amount: 1, Lasts: time.Minute, Refresh: 8 * time.Second, Safe: 1}
	c.Hear(0, asked, &claims.Leases{Rows: slices.Repeat([]claims.Lease{answer}, len(asked.Rows))}, nil)
	lock.times = 0
	for now := MinRefresh; now < 8*time.Second; now += MinRefresh {
		if again := c.Ask(now, "region"); again != nil {
			t.Fatalf("%d claims at %v", len(again.Rows), now)
		}
	}
	if lock.times != 0 {
		t.Errorf("%d looks at keys", lock.times)
	}
	if again := c.Ask(8*time.Second, "region"); len(again.Rows) != 1000 {
		t.Errorf("%d claims once they are due", len(again.Rows))
	}
}

// The agenda changes nothing of what is claimed: it is as if Ask looked at each lease.
func TestAskClaimsAllThatIsDue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, rule := none(), &dynamicconfig.Rule{Limit: 100, Burst: 100, Parent: true}
		var leases []*Lease
		var wants []*float64
		now, owned := time.Duration(0), func(string) bool { return true }
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now += time.Duration(rapid.IntRange(0, 40).Draw(rt, "after")) * MinRefresh
			at := 0
			if len(leases) > 0 {
				at = rapid.IntRange(0, len(leases)-1).Draw(rt, "lease")
			}
			switch action := rapid.IntRange(0, 6).Draw(rt, "action"); {
			case action == 0 || len(leases) == 0:
				w := new(float64)
				wants = append(wants, w)
				key := Key{Text: fmt.Sprint(rapid.IntRange(0, 4).Draw(rt, "key")), Account: wanting{wants: w}, Lock: new(looked), Leased: func(time.Duration) {}}
				leases = append(leases, c.Raise(now, key, rule, rapid.Bool().Draw(rt, "shadow"), time.Second))
			case action == 1:
				*wants[at] = rapid.Float64Range(0, 200).Draw(rt, "wants")
				leases[at].Stir(now)
			case action == 2:
				leases[at].Follow(rule, rapid.Bool().Draw(rt, "shadow"))
			case action == 3:
				leases[at].Follow(nil, false)
				leases, wants = slices.Delete(leases, at, at+1), slices.Delete(wants, at, at+1)
			case action == 4:
				some := rapid.IntRange(0, 31).Draw(rt, "owned")
				owned = func(key string) bool { return some>>(key[0]-'0')&1 == 1 }
				c.Moved(owned)
			default:
				var due []string
				for _, l := range leases {
					if !l.shadow && !l.asked && l.askAt <= now && owned(l.Text) {
						due = append(due, l.Text)
					}
				}
				var claimed []string
				asked := c.Ask(now, "region")
				if asked == nil {
					asked = new(claims.Claims)
				}
				answers := new(claims.Leases)
				for _, row := range asked.Rows {
					claimed = append(claimed, row.Key)
					answers.Rows = append(answers.Rows, claims.Lease{Amount: 1, Lasts: time.Minute, Refresh: time.Duration(rapid.IntRange(1, 9).Draw(rt, "refresh")) * time.Second})
				}
				if !slices.Equal(claimed, due) {
					rt.Fatalf("at %v %v are claimed, want %v", now, claimed, due)
				}
				if rapid.Bool().Draw(rt, "answered") {
					c.Hear(now, asked, answers, nil)
				} else {
					c.Hear(now, asked, nil, nil)
				}
			}
			if c.Len() != len(leases) {
				rt.Fatalf("%d leases, want %d", c.Len(), len(leases))
			}
		}
	})
}

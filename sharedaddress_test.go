// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop/health"
)

// logged is a log that other goroutines write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(p)
}

// count is how many lines have text.
func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Count(l.text.String(), text)
}

func (l *logged) option() headgate.Option {
	return headgate.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// A config was copied to another machine with its address. The owner of a key logs that two processes
// report as one host, and so does the host whose address it is.
func TestTwoProcessesWithOneAddressAreLogged(t *testing.T) {
	t.Parallel()
	a, copied, b := listen(t), listen(t), listen(t)
	members := membersAt(t, a, b)
	var atA, atB logged
	scope := tally.NewTestScope("", nil)
	start := func(address string, l net.Listener, opts ...headgate.Option) *headgate.Node {
		n, err := headgate.New(headgate.Config{Address: address}, memory.New(limits(t, fourKeys)), members, append(opts, headgate.WithListen(l), headgate.WithHealth(health.Config{}))...)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return n
	}
	first := start(a.Addr().String(), a, atA.option())
	owner := start(b.Addr().String(), b, atB.option(), headgate.WithScope(scope))
	allHaveGrants(t, first, owner)
	if atA.count("two processes")+atB.count("two processes") > 0 {
		t.Errorf("logged while each has its own address: %s %s", &atA.text, &atB.text)
	}
	second := start(a.Addr().String(), copied, quiet)
	key := keysByOwner(owner)[owner.Address()]
	eventually(t, "the owner logs it", func() bool {
		first.For(key).Allow()
		second.For(key).Allow()
		return atB.count("two processes run with the address of one host") == 1 && atB.count("host="+a.Addr().String()) > 0
	})
	eventually(t, "the host whose address it is logs it, though the copy calls no key of its own", func() bool {
		return atA.count("two processes run with the address of one host") == 1
	})
	if c := scope.Snapshot().Counters()["headgate.rpc.shared_address_calls+"]; c == nil || c.Value() < 2 {
		t.Errorf("counted %v", c)
	}
}

// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
)

// startAlone makes a Node that calls no other host, and starts it.
func startAlone(t *testing.T, members ringpop.Members, log slog.Handler) (*headgate.Node, error) {
	t.Helper()
	transport := &late{starts: 1}
	n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, memory.New(limits(t, "limits: []")), members,
		headgate.WithTransport(transport), headgate.WithLogger(slog.New(log)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, n.Start(t.Context())
}

func TestStartRefusesAMemberThatNobodyCanCall(t *testing.T) {
	for _, address := range []string{"x", "10.0.0.8", "10.0.0.8:", ":7933", "10.0.0.8:0"} {
		_, err := startAlone(t, listed{{Address: "127.0.0.1:7933"}, {Address: address}}, slog.DiscardHandler)
		if err == nil || !strings.Contains(err.Error(), `member "`+address+`" is not `) || !strings.Contains(err.Error(), "write it as in 10.0.0.7:7933") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// listed are members of the service's own, whose list does not change.
type listed []ringpop.Host

func (l listed) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	update(slices.Clone(l))
	<-ctx.Done()
	return nil
}

// Start does not wait for another list, which may never come.
func TestStartRefusesAListWithAMemberThatStandsTwice(t *testing.T) {
	own := ringpop.Host{Address: "127.0.0.1:7933"}
	_, err := startAlone(t, listed{own, own}, slog.DiscardHandler)
	if err == nil || !strings.Contains(err.Error(), `host "127.0.0.1:7933" is listed more than once: list each address once`) {
		t.Errorf("got %v", err)
	}
}

// lists are members of the service's own, whose lists come one after the other.
type lists chan []ringpop.Host

func (l lists) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	for {
		select {
		case hosts := <-l:
			update(hosts)
		case <-ctx.Done():
			return nil
		}
	}
}

func TestAListWithAMemberThatNobodyCanCallChangesNothing(t *testing.T) {
	own, other := ringpop.Host{Address: "127.0.0.1:7933"}, ringpop.Host{Address: "10.0.0.8:7933"}
	members := make(lists, 1)
	members <- []ringpop.Host{own}
	logged := make(logLines, 10)
	n, err := startAlone(t, members, slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelError}))
	if err != nil {
		t.Fatal(err)
	}
	members <- []ringpop.Host{own, {Address: "10.0.0.8"}}
	if line := <-logged; !strings.Contains(line, "10.0.0.8") {
		t.Errorf("logged %q", line)
	}
	if n.Ring().Len() != 1 {
		t.Errorf("the ring has %v", n.Ring().Hosts())
	}
	members <- []ringpop.Host{own, other}
	eventually(t, "the next list is used", func() bool { return n.Ring().Has(other.Address) })
}

// A source of hosts that fails may return none. With an empty ring, each host would let the whole limit through.
func TestAListThatBecomesEmptyChangesNothing(t *testing.T) {
	own := ringpop.Host{Address: "127.0.0.1:7933"}
	members := make(lists, 1)
	members <- []ringpop.Host{own, {Address: "10.0.0.8:7933"}}
	logged := make(logLines, 10)
	n, err := startAlone(t, members, slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelError}))
	if err != nil {
		t.Fatal(err)
	}
	members <- nil
	members <- []ringpop.Host{own, {Address: "10.0.0.9:7933"}}
	eventually(t, "the next list is used", func() bool { return n.Ring().Has("10.0.0.9:7933") })
	select {
	case line := <-logged:
		if !strings.Contains(line, "no host is listed") {
			t.Errorf("logged %q", line)
		}
	default:
		t.Error("the empty list was not refused")
	}
}

// logLines has each line that a logger writes.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

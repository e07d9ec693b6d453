// SPDX-License-Identifier: Apache-2.0

package rpctest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// notebook echoes, and writes down whom it heard and when.
type notebook struct {
	start time.Time

	mu    sync.Mutex
	heard []string
	at    []time.Duration
	kept  *anypb.Any
}

func (b *notebook) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard, b.at = append(b.heard, host), append(b.at, time.Since(b.start))
	b.kept = payload
	return payload, nil
}

// call sends a word from one host to another, under a deadline of a second,
// and says what came back and after how long.
func call(t *testing.T, n *rpctest.Network, from, to, text string) (string, time.Duration, error) {
	t.Helper()
	d, err := n.Host(from).Peers().Peer(to)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := anypb.New(wrapperspb.String(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	answer, err := d.Update(ctx, text, payload)
	took := time.Since(start)
	if err != nil {
		return "", took, err
	}
	var word wrapperspb.StringValue
	if err := answer.UnmarshalTo(&word); err != nil {
		t.Fatal(err)
	}
	return word.GetValue(), took, nil
}

func TestAMessageTakesItsLinksDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rpctest.New(1)
		b := &notebook{start: time.Now()}
		n.Host("b").Serve(b)
		n.SetFaults("a", "b", rpctest.Faults{Delay: 20 * time.Millisecond})
		n.SetFaults("b", "a", rpctest.Faults{Delay: 30 * time.Millisecond})
		word, took, err := call(t, n, "a", "b", "hello")
		if word != "hello" || took != 50*time.Millisecond || err != nil || b.at[0] != 20*time.Millisecond {
			t.Errorf("%q after %v (%v there), %v", word, took, b.at, err)
		}
		if _, took, err := call(t, n, "c", "b", "hello"); took != 0 || err != nil {
			t.Errorf("another link took %v, %v", took, err)
		}
	})
}

func TestAHostThatDoesNotServeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rpctest.New(1)
		if _, took, err := call(t, n, "a", "b", "x"); !errors.Is(err, rpctest.ErrRefused) || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
		n.Host("b").Serve(&notebook{})
		if _, _, err := call(t, n, "a", "b", "x"); err != nil {
			t.Error(err)
		}
		n.Host("b").Serve(nil)
		if _, _, err := call(t, n, "a", "b", "x"); !errors.Is(err, rpctest.ErrRefused) {
			t.Error(err)
		}
	})
}

func TestACutIsOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rpctest.New(1)
		b := &notebook{}
		n.Host("b").Serve(b)

		n.Cut("b", "a") // requests arrive, answers are lost
		if _, took, err := call(t, n, "a", "b", "1"); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
		n.Heal("b", "a")
		n.Cut("a", "b") // requests are lost
		if _, _, err := call(t, n, "a", "b", "2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		n.HealAll()
		if _, _, err := call(t, n, "a", "b", "3"); err != nil {
			t.Error(err)
		}
		if want := []string{"1", "3"}; !slices.Equal(b.heard, want) {
			t.Errorf("b heard %v, want %v", b.heard, want)
		}
		if n.Sent("a", "b") != 3 || n.Sent("b", "a") != 2 {
			t.Errorf("%d there, %d back", n.Sent("a", "b"), n.Sent("b", "a"))
		}
	})
}

func TestAPartitionCutsTwoSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rpctest.New(1)
		hosts := []string{"a", "b", "c", "d"}
		for _, host := range hosts {
			n.Host(host).Serve(&notebook{})
		}
		n.Partition([]string{"a", "b"}, []string{"c"})
		var cut []string
		for _, from := range hosts {
			for _, to := range hosts {
				if _, _, err := call(t, n, from, to, "x"); err != nil {
					cut = append(cut, from+to)
				}
			}
		}
		if want := []string{"ac", "bc", "ca", "cb"}; !slices.Equal(cut, want) {
			t.Errorf("cut: %v, want %v", cut, want)
		}
	})
}

func TestMessagesAreReordered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rpctest.New(3)
		b := &notebook{start: time.Now()}
		n.Host("b").Serve(b)
		n.SetFaults("a", "b", rpctest.Faults{Delay: 5 * time.Millisecond, Reorder: 0.3, HoldBack: 100 * time.Millisecond})
		var wg sync.WaitGroup
		var sent []string
		for i := range 20 {
			text := fmt.Sprint(i)
			sent = append(sent, text)
			wg.Go(func() {
				if _, _, err := call(t, n, "a", "b", text); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond) // of the bubble's clock
		}
		wg.Wait()
		if slices.Equal(b.heard, sent) {
			t.Error("all arrived in order")
		}
		if slices.Sort(b.heard); len(b.heard) != 20 || len(slices.Compact(b.heard)) != 20 {
			t.Errorf("heard %v", b.heard)
		}
	})
}

func TestChanceIsSeeded(t *testing.T) {
	fates := func(seed uint64, others int) (lost string) {
		synctest.Test(t, func(t *testing.T) {
			n := rpctest.New(seed)
			n.Host("b").Serve(&notebook{})
			n.SetFaults("a", "b", rpctest.Faults{Drop: 0.5, Jitter: 10 * time.Millisecond})
			for range 30 {
				for range others { // traffic elsewhere changes nothing
					if _, _, err := call(t, n, "c", "b", "x"); err != nil {
						t.Error(err)
					}
				}
				if _, took, err := call(t, n, "a", "b", "x"); err != nil {
					lost += "-"
				} else {
					lost += string(rune('0' + took/time.Millisecond))
				}
			}
		})
		return lost
	}
	first := fates(7, 0)
	if again := fates(7, 0); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if busy := fates(7, 3); busy != first {
		t.Errorf("%s, with other traffic %s", first, busy)
	}
	if other := fates(8, 0); other == first {
		t.Errorf("seeds 7 and 8 are both %s", other)
	}
	if lost := strings.Count(first, "-"); lost < 5 || lost > 25 {
		t.Errorf("%d of 30 were lost, at one half: %s", lost, first)
	}
}

func TestBytesShareNoMemory(t *testing.T) {
	n := rpctest.New(1)
	b := &notebook{}
	n.Host("b").Serve(b)
	d, err := n.Host("a").Peers().Peer("b")
	if err != nil {
		t.Fatal(err)
	}
	payload, err := anypb.New(wrapperspb.String("hello"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := d.Update(t.Context(), "a", payload)
	if err != nil || same != payload {
		t.Errorf("without Bytes: %v, %v", same, err)
	}
	n.Bytes(true)
	answer, err := d.Update(t.Context(), "a", payload)
	if err != nil {
		t.Fatal(err)
	}
	if answer == payload || !proto.Equal(answer, payload) {
		t.Errorf("with Bytes: %v", answer)
	}
	// b kept what it must not keep.
	if b.kept == payload || proto.Equal(b.kept, payload) {
		t.Errorf("what b kept is still good: %v", b.kept)
	}
	// What cannot be encoded does not arrive.
	if _, err := d.Update(t.Context(), "\xff", payload); err == nil {
		t.Error("a host that is not UTF-8 was sent")
	}
}

func TestAPanicIsTheCallersError(t *testing.T) {
	n := rpctest.New(1)
	n.Host("b").Serve(panics{})
	_, _, err := call(t, n, "a", "b", "x")
	if _, ok := errors.AsType[*rpc.PanicError](err); !ok {
		t.Error(err)
	}
}

type panics struct{}

func (panics) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) { panic("boom") }

func ExampleNetwork() {
	network := rpctest.New(42)
	network.Host("owner").Serve(&notebook{})
	network.Cut("owner", "host") // answers are lost

	owner, _ := network.Host("host").Peers().Peer("owner")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := owner.Update(ctx, "host", &anypb.Any{})
	fmt.Println(err)
	// Output: context deadline exceeded
}

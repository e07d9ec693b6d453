// SPDX-License-Identifier: Apache-2.0

package aggregator_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// An interval that was an hour for a moment does not keep what is old for an hour.
func TestASweepFollowsAShorterInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := new(recorder)
		owners := aggregator.Owners{All: []aggregator.Owner{one}, Log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		owners.Run(ctx, func() time.Duration {
			if time.Since(began) < 5*time.Second {
				return time.Hour
			}
			return 2 * time.Second
		})
		if got := len(one.told); got < 2 || got > 4 {
			t.Errorf("%d sweeps in five seconds of an interval of two", got)
		}
	})
}

// nonsense is a cluster above that is broken.
type nonsense struct{ calls int }

func (n *nonsense) Claim(context.Context, *claims.Claims) (*claims.Leases, []error) {
	if n.calls++; n.calls%2 == 0 {
		panic("a defect")
	}
	return &claims.Leases{}, nil
}

func TestABrokenClusterAboveDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snapshot, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: "*", limit: 10/s, algorithm: fair-share, parent: true}]`))
		if err != nil {
			t.Fatal(err)
		}
		log := new(bytes.Buffer)
		a := aggregator.New(algorithm.Builtin(), snapshot, aggregator.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		above := new(nonsense)
		go a.Parent().Run(ctx, "region", above)
		for i := range 600 {
			asked := &claims.Claims{Rows: []claims.Claim{{Key: fmt.Sprint("k", i%20), Host: "h", Bands: []claims.Band{{Clients: 1, Wants: 1}}}}}
			a.Claim(aggregator.Now(), asked)
			time.Sleep(100 * time.Millisecond)
		}
		<-ctx.Done()
		synctest.Wait()
		if lines := strings.Count(log.String(), "\n"); above.calls < 50 || lines < 1 || lines > 8 {
			t.Errorf("%d lines, %d bytes about %d calls in a minute", lines, log.Len(), above.calls)
		}
	})
}

// The Mux and the decoders look at what follows the last slash of a type URL.
func TestATypeURLMayHaveAnotherHost(t *testing.T) {
	snapshot, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: "*", limit: 10/s, algorithm: fair-share}]`))
	if err != nil {
		t.Fatal(err)
	}
	a := aggregator.New(algorithm.Builtin(), snapshot)
	for _, url := range []string{usage.ReportTypeURL, claims.TypeURL, usage.TakesTypeURL} {
		other := "example.com/x/" + url[strings.LastIndexByte(url, '/')+1:]
		payload := &anypb.Any{TypeUrl: other}
		if url == usage.ReportTypeURL {
			payload.Value = []byte("\x0a\x07elastic")
		}
		if _, err := a.Update(t.Context(), "h", payload); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

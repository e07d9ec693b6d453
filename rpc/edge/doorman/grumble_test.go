// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// refuser refuses what is called no, and leases all else.
type refuser struct{}

func (refuser) Claim(_ context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	leases := &claims.Leases{Rows: make([]claims.Lease, len(asked.Rows))}
	for i, c := range asked.Rows {
		if leases.Rows[i] = (claims.Lease{Amount: 1, Lasts: time.Minute}); c.Key == "no" {
			leases.Rows[i] = claims.Lease{Refused: "it hands out no leases"}
		}
	}
	return leases, nil
}

// shown is what the log may have of a private name.
func shown(resource string) string { return "#" + resource }

func TestWhyAResourceGetsNoLeaseIsLoggedNowAndThen(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1e9, 0)
	s := NewServer(refuser{}, ServerOptions{Address: "here:1", Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }, Show: shown})
	for _, step := range []struct {
		after time.Duration
		ids   []string
		lines int
	}{
		{0, []string{"yes"}, 0},
		{0, []string{"yes", "no"}, 1},
		{59 * time.Second, []string{"no"}, 0},
		{time.Second, []string{"no"}, 1},
		{-time.Hour, []string{"no"}, 1}, // the clock was set
		{time.Second, []string{"no"}, 0},
	} {
		now = now.Add(step.after)
		request := &doormanpb.GetCapacityRequest{ClientId: new("c")}
		for _, id := range step.ids {
			request.Resource = append(request.Resource, &doormanpb.ResourceRequest{ResourceId: new(id), Priority: new(int64(1)), Wants: new(2.0)})
		}
		if _, err := s.GetCapacity(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		got := log.String()
		log.Reset()
		if strings.Count(got, "\n") != step.lines || step.lines > 0 && !strings.Contains(got, `resource=#no host=client/c reason="it hands out no leases"`) {
			t.Errorf("at %v: logged %q, want %d lines", now, got, step.lines)
		}
	}
}

func TestCorrectionsAreLoggedNowAndThen(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1e9, 0)
	s := NewServer(refuser{}, ServerOptions{Address: "here:1", Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }, Show: shown})
	for _, step := range []struct {
		after time.Duration
		lines int
	}{{0, 1}, {59 * time.Second, 0}, {time.Second, 1}} {
		now = now.Add(step.after)
		if _, err := s.GetCapacity(t.Context(), &doormanpb.GetCapacityRequest{ClientId: new("c"), Resource: []*doormanpb.ResourceRequest{
			{ResourceId: new("huge"), Wants: new(1e300)}, {ResourceId: new("negative"), Wants: new(-1.0)},
		}}); err != nil {
			t.Fatal(err)
		}
		got := log.String()
		log.Reset()
		if strings.Count(got, "\n") != step.lines || step.lines > 0 && !strings.Contains(got, `host=client/c resource=#huge reason="wants is 1e+300; 2^53 is the most" clamped=1 left_out=1`) {
			t.Errorf("at %v: logged %q, want %d lines", now, got, step.lines)
		}
	}
}

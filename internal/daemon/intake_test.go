// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// asItIs is a codec of requests that are bytes already.
type asItIs struct{}

func (asItIs) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (asItIs) Unmarshal(mem.BufferSlice, any) error { return nil }

func (asItIs) Name() string { return "proto" }

// Requests of many empty messages, which take fifty times their size, are refused before
// they are decoded. Whatever becomes of a request, its memory is free again afterwards.
func TestLargeRequestsAreBoundedTogether(t *testing.T) {
	d := start(t, config(t))
	conn := dial(t, d.Edge())
	empties, broken := bytes.Repeat([]byte{0x12, 0}, 2<<20-500), bytes.Repeat([]byte{0xff}, 1<<20)
	for method, bodies := range map[string]map[codes.Code][]byte{
		doormanpb.Capacity_GetCapacity_FullMethodName:       {codes.ResourceExhausted: empties, codes.Internal: broken},
		doormanpb.Capacity_GetServerCapacity_FullMethodName: {codes.ResourceExhausted: empties, codes.Internal: broken},
		doormanpb.Capacity_ReleaseCapacity_FullMethodName:   {codes.ResourceExhausted: empties, codes.Internal: broken},
		quotaservicepb.QuotaService_Allow_FullMethodName:    {codes.Internal: broken},
		"/headgate.v1.Decider/Update":                       {codes.Internal: broken},
	} {
		for want, body := range bodies {
			if err := conn.Invoke(t.Context(), method, body, nil, grpc.ForceCodecV2(asItIs{})); status.Code(err) != want {
				t.Errorf("%s: %v, want %v", method, err, want)
			}
		}
	}
	list := &doormanpb.GetCapacityRequest{ClientId: new("me")}
	for i := range 20_000 {
		list.Resource = append(list.Resource, &doormanpb.ResourceRequest{ResourceId: new(fmt.Sprint("k", i)), Priority: new(int64(1)), Wants: new(1.0)})
	}
	if answer, err := doormanpb.NewCapacityClient(conn).GetCapacity(t.Context(), list); err != nil || len(answer.GetResponse()) != len(list.GetResource()) {
		t.Errorf("a request for %d resources: %d answers, %v", len(list.GetResource()), len(answer.GetResponse()), err)
	}
	if r, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: strings.Repeat("k", 4<<10), BucketName: "b"}); err != nil {
		t.Errorf("%v, %v", r, err)
	}
	waittest.Until(t, "nothing is taken", func() bool { return d.edge.Large() == 0 })
}

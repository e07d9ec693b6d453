// SPDX-License-Identifier: Apache-2.0

package quotaservice_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/waittest"
	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// A client that ends its call while the owner of the bucket is asked gets no answer, and
// its tokens go back.
func TestAClientThatEndsItsCallKeepsNothing(t *testing.T) {
	owner, e := enginetest.NewLate(t, "limits: [{key: 'late:a', limit: 100/s, algorithm: exact}]")
	owner.Key = "late:a"
	client := serve(t, e)
	for _, immediately := range []bool{true, false} {
		ctx, end := context.WithCancel(t.Context())
		go func() {
			<-owner.Asked
			end()
		}()
		before := owner.Taken()
		_, err := client.Allow(ctx, &pb.AllowRequest{Namespace: "late", BucketName: "a", TokensRequested: 3, MaxWaitTimeOverride: immediately})
		if status.Code(err) != codes.Canceled {
			t.Errorf("%v", err)
		}
		waittest.Until(t, "all is taken", func() bool { return owner.Taken() == before+3 })
		waittest.Until(t, "all goes back", func() bool { return owner.Kept() == 0 })
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package retry comes again when a call was throttled: with exponential
// backoff and full jitter, not before the server says, and not more often than
// a budget allows.
//
//	again, err := retry.New(retry.Options{})
//
//	err = again.Do(ctx, func(ctx context.Context) error {
//		resp, err := client.Do(request.Clone(ctx))
//		if err != nil {
//			return err // is no throttling, and ends it
//		}
//		defer resp.Body.Close()
//		if err := retry.Response(resp); err != nil {
//			return err // after 429 and 503, by Retry-After
//		}
//		return json.NewDecoder(resp.Body).Decode(&orders)
//	})
//
// For gRPC, the trailer says the same:
//
//	var trailer metadata.MD
//	_, err := client.List(ctx, request, grpc.Trailer(&trailer))
//	if status.Code(err) == codes.ResourceExhausted {
//		return retry.Pushback(err, trailer) // by grpc-retry-pushback-ms
//	}
//
// # How long
//
// The wait before retry i is spread evenly over [0, Base·2^(i-1)], and never
// over more than Max. Where the server says when to come, the wait is that and
// such a spread, so that those it sent away together do not come back together.
// Nobody waits for what would come after the end of ctx.
//
// # How often
//
// A Retrier is for all calls to one service, and they share its budget: each
// call puts Ratio into it, each retry takes 1 out, and there is room for Spare.
// So when everything is throttled, the service has Ratio more calls, not Tries
// times as many.
//
// The backoff is that of github.com/cenkalti/backoff. Out of scope: calls that
// failed for other reasons, which may have happened.
package retry

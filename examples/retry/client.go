// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/headgate/headgate/limiter"
)

// errThrottled is the error of a call that was over its limit each time.
var errThrottled = errors.New("over the limit")

// options bound the retries of one call. A wait that would end after
// MaxElapsedTime is not begun.
func options() []backoff.RetryOption {
	return []backoff.RetryOption{backoff.WithMaxTries(5), backoff.WithMaxElapsedTime(10 * time.Second)}
}

// throttled is err, which backoff retries after the given duration. A random
// part is added so that callers which were refused together do not come back
// together. If after is 0, it is not known when to come back, and backoff waits
// longer each time.
func throttled(err error, after time.Duration) error {
	if after <= 0 {
		return err
	}
	return errors.Join(err, &backoff.RetryAfterError{Duration: after + rand.N(after/10+time.Millisecond)})
}

// get gets a page. It retries after 429 and 503, when Retry-After says.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	return backoff.Retry(ctx, func() (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return "", backoff.Permanent(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return "", backoff.Permanent(err) // the limit is not the reason
		}
		defer response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			body, err := io.ReadAll(response.Body)
			return string(body), err
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return "", throttled(fmt.Errorf("%w: %s", errThrottled, response.Status), retryAfter(response.Header))
		}
		return "", backoff.Permanent(errors.New(response.Status))
	}, options()...)
}

// retryAfter reads Retry-After, which is a number of seconds or a date. It is 0
// if the server does not say.
func retryAfter(h http.Header) time.Duration {
	field := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(field, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(field); err == nil {
		return time.Until(date)
	}
	return 0
}

// take takes a token in this process, and retries after Decision.RetryAfter.
// Most programs call Wait instead, which takes its place in the queue; take
// suits those that would rather do something else meanwhile.
func take(ctx context.Context, l *limiter.Limiter) error {
	_, err := backoff.Retry(ctx, func() (limiter.Decision, error) {
		d := l.Decide(ctx, 1, 0)
		switch {
		case d.OK:
			return d, nil
		case d.Reason == limiter.Limited:
			return d, throttled(errThrottled, d.RetryAfter)
		}
		return d, backoff.Permanent(fmt.Errorf("%v", d.Reason))
	}, options()...)
	return err
}

// serviceConfig has gRPC retry by itself. It waits as long as the trailer
// grpc-retry-pushback-ms says, and does not retry if that is negative.
// retryThrottling is the budget of all calls to one server: when half of it is
// used up by failures, gRPC stops retrying.
const serviceConfig = `{
	"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "5s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}],
	"retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1}
}`

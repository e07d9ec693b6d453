// SPDX-License-Identifier: Apache-2.0

package quotaservice_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// conformance has the cases of quotaservice's wire contract. Each is a config
// of quotaservice's and a trace: a line is `namespace bucket tokens [at most
// override]: STATUS wait`, with the wait of who asks at
// the same instant, or `wait` and a time.
var conformance = []struct{ name, config, trace string }{
	{"borrowing", one("size: 10, fill_rate: 5, max_tokens_per_request: 5, wait_timeout_millis: 1000"), `
		a b 5: OK 0
		a b 5: OK 0
		a b 5: OK 0
		a b 5: OK 1000
		a b 5: REJECTED_TIMEOUT
		a b 5: REJECTED_TIMEOUT`},
	{"largest request", one("size: 10, fill_rate: 5, max_tokens_per_request: 5, wait_timeout_millis: 1000"), `
		a b 6: REJECTED_TOO_MANY_TOKENS_REQUESTED
		a b 5: OK 0`},
	{"most debt", one("size: 10, fill_rate: 10, max_debt_millis: 500, max_tokens_per_request: 100"), `
		a b 15: OK 0`},
	{"too much debt takes nothing", one("size: 10, fill_rate: 10, max_debt_millis: 500, max_tokens_per_request: 100"), `
		a b 16: REJECTED_TIMEOUT
		a b 15: OK 0`},
	{"dynamic buckets", "namespaces: {a: {max_dynamic_buckets: 2, dynamic_bucket_template: {size: 1, fill_rate: 1}}}", `
		a k1 1: OK 0
		a k2 1: OK 0
		a k3 1: REJECTED_TOO_MANY_BUCKETS
		a k1 1: OK 0`},
	{"one default bucket for different names", "namespaces: {a: {default_bucket: {size: 2, fill_rate: 1, wait_timeout_millis: 1}}}", `
		a x 1: OK 0
		a y 1: OK 0
		a z 1: OK 0
		a x 1: REJECTED_TIMEOUT
		a new 1: REJECTED_TIMEOUT`},
	{"one global default bucket", "{global_default_bucket: {size: 1, fill_rate: 1, wait_timeout_millis: 1}, namespaces: {a: {buckets: {b: {size: 1, fill_rate: 1}}}}}", `
		x y 1: OK 0
		y other 1: OK 0
		x z 1: REJECTED_TIMEOUT
		a b 1: OK 0`},
	{"an unknown name in a known namespace", "{global_default_bucket: {size: 1, fill_rate: 1}, namespaces: {a: {buckets: {b: {size: 1, fill_rate: 1}}}, none: {}}}", `
		a other 1: REJECTED_NO_BUCKET
		none b 1: REJECTED_NO_BUCKET
		x y 1: OK 0
		a b 1: OK 0`},
	{"no bucket", one("size: 10"), `
		a c 1: REJECTED_NO_BUCKET
		c b 1: REJECTED_NO_BUCKET
		a b 1: OK 0`},
	{"what a largest request is by default", one("fill_rate: 321, size: 1000"), `
		a b 322: REJECTED_TOO_MANY_TOKENS_REQUESTED
		a b 321: OK 0`},
	{"all defaults", one("size: 100"), `
		a b 51: REJECTED_TOO_MANY_TOKENS_REQUESTED
		a b 50: OK 0
		a b 50: OK 0
		a b 50: OK 0
		a b 50: OK 1000
		a b 1: REJECTED_TIMEOUT`},
	{"tokens below 1 are 1", one("size: 2, fill_rate: 1, wait_timeout_millis: 1, max_debt_millis: 1"), `
		a b 0: OK 0
		a b -5: OK 0
		a b -9223372036854775808: REJECTED_TIMEOUT`},
	{"an override only lowers", one("size: 1, fill_rate: 1, wait_timeout_millis: 1500"), `
		a b 1: OK 0
		a b 1: OK 0
		a b 1 at most 0: REJECTED_TIMEOUT
		a b 1 at most 900: REJECTED_TIMEOUT
		a b 1 at most -1: REJECTED_TIMEOUT
		a b 1 at most 1001: OK 1000
		a b 1 at most 9223372036854775807: REJECTED_TIMEOUT
		wait 501ms
		a b 1 at most 9223372036854775807: OK 1499`},
	{"who need not wait is served, whatever the override", one("size: 1, fill_rate: 1"), `
		a b 1 at most -9223372036854775808: OK 0`},
	{"names are needed", one("size: 1"), `
		"" b 1: REJECTED_INVALID_REQUEST
		a "" 1: REJECTED_INVALID_REQUEST
		"" "" 1: REJECTED_INVALID_REQUEST`},
	{"a rejection leaves waits as they were", one("size: 1, fill_rate: 1, wait_timeout_millis: 1000, max_debt_millis: 2000"), `
		a b 1: OK 0
		a b 1: OK 0
		a b 1: OK 1000
		a b 1: REJECTED_TIMEOUT
		a b 1: REJECTED_TIMEOUT
		wait 1001ms
		a b 1: OK 999`},
}

// one is a config with the bucket a:b.
func one(fields string) string { return "namespaces: {a: {buckets: {b: {" + fields + "}}}}" }

func TestConformanceOnVirtualTime(t *testing.T) {
	for _, tc := range conformance {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if wrong, _ := play(t, serveGroup(t, tc.config), tc.trace); wrong != "" {
					t.Error(wrong)
				}
			})
		})
	}
}

func TestConformanceOfADaemon(t *testing.T) {
	for _, algorithm := range []string{"exact", "elastic", "even"} {
		for _, tc := range conformance {
			if algorithm == "elastic" && strings.Contains(tc.trace, "wait ") {
				continue // the owner may change the bucket meanwhile
			}
			t.Run(algorithm+"/"+tc.name, func(t *testing.T) {
				// On a machine that is so slow that buckets fill meanwhile, a
				// wrong answer says nothing: it is asked again.
				for range 20 {
					wrong, late := play(t, serveDaemon(t, tc.config, algorithm), tc.trace)
					switch {
					case wrong == "":
						return
					case late < 400*time.Millisecond:
						t.Fatal(wrong)
					}
				}
				t.Fatal("the machine is always too slow")
			})
		}
	}
}

// play asks what the trace says, and returns what is answered wrongly, and how
// much later than the trace says it ended. Waits may be shorter by that time.
func play(t *testing.T, client pb.QuotaServiceClient, trace string) (wrong string, late time.Duration) {
	t.Helper()
	due := time.Now()
	for line := range strings.Lines(strings.TrimSpace(trace)) {
		line = strings.TrimSpace(line)
		if d, ok := strings.CutPrefix(line, "wait "); ok {
			rest, err := time.ParseDuration(d)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(rest)
			due = due.Add(rest)
			continue
		}
		question, answer, _ := strings.Cut(line, ": ")
		r, err := client.Allow(t.Context(), request(t, question))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		status, wait, _ := strings.Cut(answer, " ")
		var most int64
		if _, err := fmt.Sscan(wait, &most); wait != "" && err != nil {
			t.Fatal(err)
		}
		late = time.Since(due)
		short := most - r.WaitMillis
		tokens := request(t, question).TokensRequested
		if r.Status != ok {
			tokens = 0
		}
		if r.Status.String() != status || short < 0 || short > (late+time.Millisecond-1).Milliseconds() || r.TokensGranted != tokens {
			wrong += fmt.Sprintf("%s: got %v, %d tokens, wait %d ms\n", line, r.Status, r.TokensGranted, r.WaitMillis)
		}
	}
	return wrong, late
}

func request(t *testing.T, question string) *pb.AllowRequest {
	t.Helper()
	words := strings.Fields(question)
	if len(words) != 3 && len(words) != 6 {
		t.Fatalf("not a question: %s", question)
	}
	r := &pb.AllowRequest{Namespace: strings.Trim(words[0], `"`), BucketName: strings.Trim(words[1], `"`)}
	_, err := fmt.Sscan(words[2], &r.TokensRequested)
	if len(words) == 6 && err == nil {
		_, err = fmt.Sscan(words[5], &r.MaxWaitMillisOverride)
		r.MaxWaitTimeOverride = true
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

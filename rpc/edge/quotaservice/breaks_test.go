// SPDX-License-Identifier: Apache-2.0

package quotaservice_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/quotaservice"
	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// What breaks in quotaservice itself.

// take asks for tokens of a:b, and would not wait.
func take(t testing.TB, client pb.QuotaServiceClient, tokens int64) *pb.AllowResponse {
	t.Helper()
	r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: "b", TokensRequested: tokens, MaxWaitTimeOverride: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFractionsOfTokensAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serveGroup(t, one("size: 1, fill_rate: 10, max_debt_millis: 1"))
		take(t, client, 1)
		served := 0
		for range 10_000 / 7 { // asks each 7 ms, for 10 s
			time.Sleep(7 * time.Millisecond)
			if take(t, client, 1).Status == ok {
				served++
			}
		}
		// 1428 asks in 9.996 s; each waits for the first ask after its token.
		if served < 95 || served > 100 {
			t.Errorf("%d were served in 10 s of 10/s", served)
		}
	})
}

func TestRatesAboveABillion(t *testing.T) {
	client := serveGroup(t, one("size: 1000000, fill_rate: 1000000000000"))
	for range 100 {
		if r := take(t, client, 1000); r.Status != ok {
			t.Fatal(r)
		}
	}
}

func TestHugeNumbersOfTokens(t *testing.T) {
	for _, n := range []int64{math.MaxInt64, math.MaxInt64 - 1, 9e18, 1 << 53, math.MaxInt32 + 1} {
		client := serveGroup(t, one("size: 10, fill_rate: 5"))
		if r := take(t, client, n); r.Status != pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED || r.TokensGranted != 0 {
			t.Errorf("%d: %v", n, r)
		}
		if r := take(t, client, 5); r.Status != ok {
			t.Errorf("after %d: %v", n, r)
		}
	}
	client := serveGroup(t, one("size: 1000000000000, fill_rate: 1000000000000, max_tokens_per_request: 1000000000000"))
	if r := take(t, client, 1e12); r.Status != ok || r.TokensGranted != 1e12 {
		t.Errorf("%v", r)
	}
}

func TestNoGoroutineForEachBucket(t *testing.T) {
	client := serveGroup(t, "namespaces: {a: {dynamic_bucket_template: {}}}")
	before := runtime.NumGoroutine()
	for i := range 2000 {
		if r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: fmt.Sprint(i)}); err != nil || r.Status != ok {
			t.Fatal(r, err)
		}
	}
	if grown := runtime.NumGoroutine() - before; grown > 100 {
		t.Errorf("2000 buckets have %d goroutines", grown)
	}
}

// Readers of what is going on do not disturb those that ask: for -race.
func TestLookingWhileOthersAsk(t *testing.T) {
	group := limiter.NewGroup(snapshot(t, "namespaces: {a: {dynamic_bucket_template: {}}}"), 1)
	b := engine.New(group, nil)
	client := serve(t, b)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 100 {
				name := fmt.Sprint(j % 7)
				if i%2 == 0 {
					b.Look("a:" + name)
					continue
				}
				if r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: name}); err != nil || r.Status != ok && r.Status != timeout {
					t.Error(r, err)
				}
			}
		})
	}
	all.Wait()
}

// A change elsewhere in the config neither fills a bucket nor makes a second
// one of it.
func TestAChangeOfConfigKeepsBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := limiter.NewGroup(snapshot(t, one("size: 10, fill_rate: 10, max_debt_millis: 1")), 1)
		client := serve(t, engine.New(group, nil))
		take(t, client, 8)
		group.Configure(snapshot(t, "namespaces: {a: {buckets: {b: {size: 10, fill_rate: 10, max_debt_millis: 1}, c: {}}}, d: {}}"))
		if r := take(t, client, 3); r.Status != timeout {
			t.Errorf("an unrelated change: %v", r)
		}
		group.Configure(snapshot(t, one("size: 20, fill_rate: 10, max_debt_millis: 1")))
		if r := take(t, client, 3); r.Status != timeout {
			t.Errorf("a larger size: %v", r)
		}
		if r := take(t, client, 2); r.Status != ok {
			t.Errorf("what was left: %v", r)
		}
	})
}

// silent says when it is asked, and decides nothing until its caller has gone.
type silent struct{ asked chan<- bool }

func (s silent) Decide(ctx context.Context, _ edge.Ask) edge.Decision {
	s.asked <- true
	<-ctx.Done()
	return edge.Decision{Reason: edge.Failed}
}

// away is a remote bucket that nobody answers for.
type away struct{}

func (away) Do(ctx context.Context, _ stage.Operation) (stage.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	return stage.Outcome{}, ctx.Err()
}

// Where another decides and does not answer, the rule's fallback does, in
// bounded time.
func TestWhoDecidesElsewhereIsAway(t *testing.T) {
	for fallback, want := range map[string]pb.AllowResponse_Status{"closed": serverError, "even": ok, "open": ok} {
		synctest.Test(t, func(t *testing.T) {
			limits := strings.Replace(string(imported(t, one("size: 10"))), "defaults:\n", "defaults:\n  fallback: "+fallback+"\n", 1)
			s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
			if err != nil {
				t.Fatal(err)
			}
			client := serve(t, engine.New(limiter.NewGroup(s, 1, limiter.WithRemote("exact", away{})), nil))
			began := time.Now()
			if r := take(t, client, 1); r.Status != want {
				t.Errorf("fallback %s: %v", fallback, r)
			}
			if took := time.Since(began); took > 20*time.Millisecond {
				t.Errorf("fallback %s took %v", fallback, took)
			}
		})
	}
}

// Who hangs up does not leave a call behind.
func TestCallersThatGo(t *testing.T) {
	asked := make(chan bool, 1)
	client := serve(t, silent{asked})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if r, err := client.Allow(ctx, &pb.AllowRequest{Namespace: "a", BucketName: "b"}); err == nil {
		t.Errorf("got %v", r)
	}
}

// Each reason has a status, and nothing is an error of gRPC.
func TestReasonsBecomeStatuses(t *testing.T) {
	want := map[edge.Reason]pb.AllowResponse_Status{
		edge.Limited: timeout, edge.TooCostly: pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED, edge.Unmatched: pb.AllowResponse_REJECTED_NO_BUCKET,
		edge.TooManyKeys: pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS, edge.InvalidKey: invalid, edge.InvalidCost: invalid, edge.Forbidden: invalid,
		edge.Failed: serverError, edge.InFlight: pb.AllowResponse_REJECTED_NO_BUCKET, edge.Reason(edge.Reasons): serverError,
	}
	for r := range edge.Reason(edge.Reasons + 1) {
		granted := r <= edge.Bypassed
		client := serve(t, fixed{edge.Decision{OK: granted, Reason: r, Wait: 1999 * time.Microsecond}})
		answer, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: "b", TokensRequested: 3})
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		expected := &pb.AllowResponse{Status: want[r]}
		if granted {
			expected = &pb.AllowResponse{TokensGranted: 3, WaitMillis: 1}
		}
		if answer.String() != expected.String() {
			t.Errorf("%v: %v", r, answer)
		}
	}
}

type fixed struct{ d edge.Decision }

func (f fixed) Decide(context.Context, edge.Ask) edge.Decision { return f.d }

// asked notes how long the caller would wait.
type asked struct{ longest time.Duration }

func (a *asked) Decide(_ context.Context, q edge.Ask) edge.Decision {
	a.longest = q.Longest
	return edge.Decision{OK: true}
}

func TestOverridesOfAnyNumber(t *testing.T) {
	for _, tc := range []struct {
		millis     int64
		overridden bool
		want       time.Duration
	}{
		{5, false, edge.AsLongAsTheRule},
		{5, true, 5 * time.Millisecond},
		{0, true, 0},
		{-5, true, 0},
		{math.MinInt64, true, 0},
		{math.MaxInt64, true, math.MaxInt64 / 1_000_000 * 1_000_000},
	} {
		a := &asked{longest: -1}
		s := quotaservice.NewServer(a, quotaservice.ServerOptions{})
		r := &pb.AllowRequest{Namespace: "a", BucketName: "b", MaxWaitMillisOverride: tc.millis, MaxWaitTimeOverride: tc.overridden}
		if _, err := s.Allow(t.Context(), r); err != nil || a.longest != tc.want {
			t.Errorf("%d, %v: %v, want %v", tc.millis, tc.overridden, a.longest, tc.want)
		}
	}
}

// Idle dynamic buckets leave, which makes room for others, and come back full.
func TestIdleBucketsLeaveAndComeBackFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := limiter.NewGroup(snapshot(t, "namespaces: {a: {max_dynamic_buckets: 1, dynamic_bucket_template: {size: 2, fill_rate: 2, max_idle_millis: 1000, max_debt_millis: 1}}}"), 1)
		client := serve(t, engine.New(group, nil))
		allow := func(name string) pb.AllowResponse_Status {
			r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: name, TokensRequested: 2})
			if err != nil {
				t.Fatal(err)
			}
			return r.Status
		}
		report := func(after time.Duration) {
			time.Sleep(after)
			driver.Of(group).Report(stage.Now())
		}
		if allow("k1") != ok || allow("k2") != pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS {
			t.Fatal("one is not all")
		}
		report(900 * time.Millisecond)
		if allow("k2") != pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS {
			t.Error("it left too early")
		}
		report(0)
		report(5 * time.Second)
		report(5 * time.Second)
		if got := allow("k2"); got != ok {
			t.Errorf("there is no room: %v", got)
		}
		report(5 * time.Second)
		report(5 * time.Second)
		if got := allow("k1"); got != ok {
			t.Errorf("it did not come back full: %v", got)
		}
	})
}

// Names of any length and bytes are served.
func TestNamesOfAnyLengthAreServed(t *testing.T) {
	client := serveGroup(t, "global_default_bucket: {}")
	for _, tc := range []struct {
		namespace, bucket string
		want              pb.AllowResponse_Status
	}{
		{"a", "b:c", ok},
		{"a:b", "c", ok},
		{":", "c", ok},
		{"a", ":", ok},
		{"a", "*", ok},
		{"a b\x00é", "\n", ok},
		{"a", strings.Repeat("x", 1022), ok},
		{"a", strings.Repeat("x", 1023), ok},
		{strings.Repeat("x", 1<<16), strings.Repeat("y", 1<<16), ok},
	} {
		r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: tc.namespace, BucketName: tc.bucket})
		if err != nil || r.Status != tc.want {
			t.Errorf("%.20q %.20q: %v, %v", tc.namespace, tc.bucket, r, err)
		}
	}
}

// A bucket whose name has a colon or is long is found by its own rule.
func TestRulesOfOddNamesAreFound(t *testing.T) {
	long := strings.Repeat("x", 2000)
	client := serveGroup(t, fmt.Sprintf("{global_default_bucket: {max_tokens_per_request: 1}, namespaces: {'a:b': {buckets: {c: {max_tokens_per_request: 2}}, default_bucket: {max_tokens_per_request: 3}}, %s: {buckets: {%sy: {max_tokens_per_request: 4}}}, a: {buckets: {'b:c': {max_tokens_per_request: 5}}}}}", long, long))
	for _, tc := range []struct {
		namespace, bucket string
		most              int64 // 0: no bucket
	}{
		{"a:b", "c", 2},
		{"a:b", "d", 3},
		{"a:b", "c:d", 3},
		{long, long + "y", 4},
		{long, long + "z", 0},
		{long + "y", long, 1},
		{"a", "b:c", 5},
		{"a", "b", 0},
		{"a%3Ab", "c", 1},
	} {
		for tokens, want := range map[int64]pb.AllowResponse_Status{tc.most: ok, tc.most + 1: pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED} {
			if tc.most == 0 {
				want = pb.AllowResponse_REJECTED_NO_BUCKET
			}
			r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: tc.namespace, BucketName: tc.bucket, TokensRequested: tokens})
			if err != nil || r.Status != want {
				t.Errorf("%d of %.20q %.20q: %v, %v; want %v", tokens, tc.namespace, tc.bucket, r, err, want)
			}
		}
	}
}

// A rule that says nothing about waiting lets callers wait for a second, as a bucket
// of quotaservice's does by default.
func TestCallersWaitForASecondUnlessTheRuleSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			rule     string
			override int64 // -1: none
			longest  int64 // milliseconds that a caller is told to wait at most
		}{
			{"", -1, 1000},
			{"", 300, 300},
			{"", 60_000, 1000},
			{", max_wait: 3s", -1, 3000},
			{", max_wait: 3s", 2000, 2000},
			{", max_wait: 200ms", -1, 200},
			{", max_wait: 0s", -1, 0},
			{", max_debt: 5s", -1, 5000},
			{", max_debt: 5s", 2000, 2000},
		} {
			for _, algorithm := range []string{"even", "elastic", "request-weighted", "gossip"} {
				s, err := dynamicconfig.Parse("limits.yaml", []byte("limits: [{key: '*', limit: 100/s, algorithm: "+algorithm+tc.rule+"}]"))
				if err != nil {
					t.Fatal(err)
				}
				server := quotaservice.NewServer(engine.New(limiter.NewGroup(s, 1), nil), quotaservice.ServerOptions{})
				last, refused := int64(0), 0
				for range 1000 {
					r, err := server.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: "b", MaxWaitMillisOverride: tc.override, MaxWaitTimeOverride: tc.override >= 0})
					if err != nil {
						t.Fatal(err)
					}
					if last = max(last, r.WaitMillis); r.Status == timeout {
						refused++
					}
				}
				if last > tc.longest || last < tc.longest-10 || refused < 300 {
					t.Errorf("%s%s, override %d: waits of up to %d ms, and %d of 1000 refused; want %d ms", algorithm, tc.rule, tc.override, last, refused, tc.longest)
				}
			}
		}
	})
}

// tokens_granted repeats tokens_requested, also where that stands for 1.
func TestTokensGrantedRepeatsTheRequest(t *testing.T) {
	client := serveGroup(t, "global_default_bucket: {}")
	for _, tokens := range []int64{0, -7, 1, 5} {
		if r, err := client.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: "b", TokensRequested: tokens}); err != nil || r.Status != ok || r.TokensGranted != tokens {
			t.Errorf("%d requested: %v, %v", tokens, r, err)
		}
	}
}

// A JSON config without max_tokens_per_request has no bound.
func TestALargestRequestIsUnboundedInJSON(t *testing.T) {
	client := serveGroup(t, `{"namespaces": {"a": {"buckets": {"b": {"size": 100, "fill_rate": 50}}}}}`)
	for _, tc := range []struct {
		tokens int64
		want   pb.AllowResponse_Status
	}{{601, timeout}, {1_000_000, timeout}, {600, ok}} {
		if r := take(t, client, tc.tokens); r.Status != tc.want {
			t.Errorf("%d tokens: %v, want %v", tc.tokens, r, tc.want)
		}
	}
}

func TestMetricsCountStatuses(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	s := quotaservice.NewServer(engine.New(limiter.NewGroup(snapshot(t, one("size: 1, max_debt_millis: 1")), 1), nil), quotaservice.ServerOptions{Scope: scope})
	for _, name := range []string{"b", "b", "b", "c", ""} {
		if _, err := s.Allow(t.Context(), &pb.AllowRequest{Namespace: "a", BucketName: name}); err != nil {
			t.Fatal(err)
		}
	}
	counters := scope.Snapshot().Counters()
	for status, want := range map[string]int64{"ok": 1, "rejected_timeout": 2, "rejected_no_bucket": 1, "rejected_invalid_request": 1, "rejected_server_error": 0} {
		if got := counters["quotaservice.requests+status="+status].Value(); got != want {
			t.Errorf("%s: %d", status, got)
		}
	}
}

// Whatever the request, the answer is a status.
func FuzzAllow(f *testing.F) {
	f.Add("a", "b", int64(1), int64(0), false)
	f.Add("a", "", int64(math.MinInt64), int64(math.MaxInt64), true)
	s := quotaservice.NewServer(engine.New(limiter.NewGroup(snapshot(f, "namespaces: {a: {max_dynamic_buckets: 3, dynamic_bucket_template: {}}}"), 1), nil), quotaservice.ServerOptions{})
	f.Fuzz(func(t *testing.T, namespace, bucket string, tokens, override int64, overridden bool) {
		r, err := s.Allow(t.Context(), &pb.AllowRequest{Namespace: namespace, BucketName: bucket, TokensRequested: tokens, MaxWaitMillisOverride: override, MaxWaitTimeOverride: overridden})
		if err != nil || r.WaitMillis < 0 || r.WaitMillis > 1000 || r.Status == ok && r.TokensGranted != tokens || r.Status != ok && (r.TokensGranted != 0 || r.WaitMillis != 0) {
			t.Fatal(r, err)
		}
	})
}

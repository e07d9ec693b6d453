// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/recent"
)

func TestWhyAKeyWasLimitedThen(t *testing.T) {
	s := start(t, rights)
	at := time.Now().Add(-time.Minute).Truncate(time.Second)
	points := func(allowed, rejected float64) (all []recent.Point) {
		for i := int64(-20); i <= 20; i++ { // twice as much after
			p := recent.Point{Second: at.Unix() + i, Length: 1, Allowed: allowed, Reject: rejected}
			if i >= 5 {
				p.Allowed, p.Reject = 2*allowed, 2*rejected
			}
			all = append(all, p)
		}
		return all
	}
	s.History = remembered{
		"orders:a": {points(60, 5), points(40, 0)}, "orders:b": {points(10, 30), points(1, 0)}, "billing:c": {points(1, 0), nil},
	}
	s.renew()
	ask := func(key string, at time.Time) (then lasthour.Then) {
		t.Helper()
		path := "/v1/explain/past?" + url.Values{"key": {key}, "at": {at.UTC().Format(time.RFC3339)}}.Encode()
		if err := json.Unmarshal([]byte(s.must(t, 200, "", "GET", path, "")), &then); err != nil {
			t.Fatal(err)
		}
		return then
	}
	expect := func(what string, then *lasthour.Then, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(then.Because, w) {
				t.Errorf("%s: %q is not in %q", what, w, then.Because)
			}
		}
	}

	// Before the first version, daemons may have had other limits, as of a file.
	then := ask("orders:a", at)
	expect("no version", &then, "the database had no limits yet", "is not known", "2 of 2 members allowed 100/s and rejected 5/s together", "c does not answer")
	if len(then.Hosts) != 2 || then.Hosts[0].Allowed != 600 || then.Hosts[0].Rejected != 50 || then.Version != 0 {
		t.Errorf("%+v", then)
	}

	// Versions count from when they were stored.
	s.must(t, 201, "", "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	if then := ask("orders:a", at); then.Version != 0 {
		t.Errorf("the rule of a minute ago is of version %d, which is of now", then.Version)
	}
	s.Store = nil
	s.renew()
	then = ask("orders:a", at)
	expect("used up", &then, `the rule "orders:*" limited the key to 100/s`, "the limit was used up", "the limits are in a file")
	then = ask("orders:b", at)
	expect("one host", &then, "11% of the limit were used", "a rejected most")
	then = ask("billing:c", at)
	expect("nothing", &then, "1 of 2 members allowed 1/s together, and rejected nothing")
	then = ask("billing:d", at)
	expect("unused", &then, "no member remembers that the key was used then")
	if then := ask("orders:a", time.Now().Add(-20*time.Minute)); then.Until.Sub(then.From) != 30*time.Second || then.From.Unix()%10 != 0 {
		t.Errorf("of a time long ago, the answer is about seconds that members no longer remember one by one: %v to %v", then.From, then.Until)
	}

	for _, bad := range []string{"", "noon", time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-2 * time.Hour).Format(time.RFC3339)} {
		s.must(t, 400, "write a time of the last hour", "GET", "/v1/explain/past?"+url.Values{"key": {"a"}, "at": {bad}}.Encode(), "")
	}
	if status, _, _ := s.ask(t, "program-token", "GET", "/v1/explain/past?key=orders:a&at="+url.QueryEscape(at.UTC().Format(time.RFC3339)), ""); status != 403 {
		t.Errorf("a program is answered with %d", status)
	}
}

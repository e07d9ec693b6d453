// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"strings"
	"testing"
)

func TestTraceMistakes(t *testing.T) {
	const head = "time_s,host,key,cost\n"
	tests := []struct{ text, want string }{
		{"", "t.csv: has no events"},
		{head, "t.csv: has no events"},
		{"1,a,k,1\n", "t.csv:1: begins with \"1,a,k,1\": write the header"},
		{head + "1,a,k\n", "t.csv:2: 3 fields"},
		{head + "1,a,k,1,2\n", "t.csv:2: 5 fields"},
		{head + "x,a,k,1\n", "t.csv:2: time_s"},
		{head + "-1,a,k,1\n", "t.csv:2: time_s"},
		{head + "NaN,a,k,1\n", "t.csv:2: time_s"},
		{head + "1e99,a,k,1\n", "t.csv:2: time_s"},
		{head + "1,,k,1\n", "t.csv:2: host"},
		{head + "1,a,,1\n", "t.csv:2: host"},
		{head + "1,a,k,0\n", "t.csv:2: cost"},
		{head + "1,a,k,1.5\n", "t.csv:2: cost"},
		{head + "\n# comment\n1,a,k,99999999999999999999\n", "t.csv:4: cost"},
		{head + strings.Repeat("x", 5000), "t.csv:2: a line of more than"},
	}
	for _, tt := range tests {
		if _, err := ParseTrace("t.csv", strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: err = %v, want %s", tt.text, err, tt.want)
		}
	}
	good, err := ParseTrace("t.csv", strings.NewReader("\ufefftime_s, host, key, cost\r\n2,b,k,1\r\n\r\n1, a ,k, 2\r\n1,b,j,3"))
	if err != nil {
		t.Fatal(err)
	}
	if len(good.Rows) != 3 || good.Rows[0].Cost != 2 || good.Rows[1].Cost != 3 || good.Rows[2].Cost != 1 || len(good.Keys) != 2 {
		t.Errorf("%+v", good)
	}
}

func FuzzParseTrace(f *testing.F) {
	f.Add("time_s,host,key,cost\n1,a,k,1\n0.5,b,k,2\n")
	f.Add("# x\ntime_s,host,key,cost\n\n1e3,a,k,1000000000\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseTrace("t.csv", strings.NewReader(text))
		if (trace == nil) == (err == nil) {
			t.Fatal("exactly one of both")
		}
		if err != nil {
			return
		}
		for i, r := range trace.Rows {
			if r.At < 0 || r.At > MaxDuration || r.Cost < 1 || i > 0 && trace.Rows[i-1].At > r.At {
				t.Fatalf("row %d: %+v", i, r)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package accesslog

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const (
	combinedLine = `10.1.2.3 - jane doe [10/Oct/2026:13:55:36 -0700] "GET /a%20b?c=d HTTP/1.1" 200 2326 "https://e.org/" "Agent \"x\" 1.0"`
	envoyLine    = `[2026-04-15T20:17:00.310Z] "POST /api/v1/locations?x=1 HTTP/2" 204 - 154 7 226 100 "10.0.35.28, 10.0.0.1" "nsq2http" "cc21d9b0" "locations" "tcp://10.0.2.1:80"`
	albLine      = `https 2026-04-15T20:17:00.186641Z app/lb/50dc6c49 [2001:db8::1]:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://e.org:443/a?b HTTP/1.1" "curl/7.46.0" ECDHE TLSv1.2 arn:x "Root=1"`
	traefikText  = `{"ClientAddr":"10.1.2.3:4711","ClientHost":"10.1.2.3","ClientUsername":"-","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/a?b","StartUTC":"2026-04-15T20:17:00.25Z","time":"2026-04-15T20:17:01Z"}`
	gcpText      = `{"timestamp":"2026-04-15T20:17:00.25Z","httpRequest":{"requestMethod":"GET","requestUrl":"https://e.org/a?b","status":200,"remoteIp":"10.1.2.3"}}`
	ecsText      = `{"@timestamp":"2026-04-15T20:17:00.25Z","client":{"ip":"10.1.2.3"},"http":{"request":{"method":"GET"},"response":{"status_code":200}},"url":{"path":"/a","original":"/a?b"}}`
	jsonText     = `{"time":"2026-04-15T20:17:00.5Z","remote_addr":"10.1.2.3","method":"GET","uri":"/a?b","status":200,"http_user_agent":"x","tenant":{"id":7},"request":{"headers":{"X-Api-Key":["k1","k2"]}}}`
)

func TestFieldsOfEachFormat(t *testing.T) {
	for _, tt := range []struct {
		format, line string
		at           time.Time
		templates    map[string]string
	}{
		{"combined", combinedLine, time.Date(2026, 10, 10, 20, 55, 36, 0, time.UTC), map[string]string{
			"{ip}": "10.1.2.3", "{user}": "jane doe", "{method} {path}": "GET /a%20b", "{uri}": "/a%20b?c=d", "{status}": "200", "{bytes}": "2326",
			"{header:Referer}|{header:User-Agent}": `https://e.org/|Agent "x" 1.0`, "all": "all", "x{ip}y": "x10.1.2.3y",
		}},
		{"combined", `::1 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03" 400 0 "-" "-"`, time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC), map[string]string{
			"{ip} {method} {path} {user}": "::1 - - -", "{header:user-agent}": "-",
		}},
		{"combined", `::1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.0" 304 -`, time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC), map[string]string{
			"{path} {bytes} {header:referer}": "/ - -",
		}},
		{"envoy", envoyLine, time.Date(2026, 4, 15, 20, 17, 0, 310e6, time.UTC), map[string]string{
			"{ip}": "10.0.35.28", "{method} {path} {status}": "POST /api/v1/locations 204", "{header:authority}": "locations", "{bytes}": "7", "{upstream}": "tcp://10.0.2.1:80",
		}},
		// Istio's says why, too.
		{"envoy", strings.Replace(envoyLine, " 204 - ", ` 503 UF upstream_reset{connection_failure} - "TLS error: \"x\"" `, 1), time.Date(2026, 4, 15, 20, 17, 0, 310e6, time.UTC), map[string]string{
			"{ip} {method} {path} {status} {bytes} {upstream}": "10.0.35.28 POST /api/v1/locations 503 7 tcp://10.0.2.1:80",
		}},
		{"envoy", strings.Replace(envoyLine, " 204 - ", ` 204 - - - "-" `, 1), time.Date(2026, 4, 15, 20, 17, 0, 310e6, time.UTC), map[string]string{"{bytes}": "7"}},
		{"json", jsonText, time.Date(2026, 4, 15, 20, 17, 0, 500e6, time.UTC), map[string]string{
			"{ip}": "10.1.2.3", "{method} {path} {status}": "GET /a 200", "{uri}": "/a?b", "{tenant.id}": "7", "{header:user-agent}": "x", "{header:x-api-key}": "k1", "{nothing}": "-",
		}},
		{"json", `{"ts":1776284220.25,"request":{"remote_ip":"::1"}}`, time.Unix(1776284220, 250e6).UTC(), map[string]string{"{ip}": "::1"}},
		{"json", `{"start_time":"2026-04-15T20:17:00.250Z","x_forwarded_for":"-","downstream_remote_address":"10.1.2.3:5555"}`, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), map[string]string{"{ip}": "10.1.2.3"}},
		{"json", `{"start_time":"2026-04-15T20:17:00.250Z","x_forwarded_for":null,"downstream_remote_address":"[2001:db8::1]:5555"}`, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), map[string]string{"{ip}": "2001:db8::1"}},
		// Debian's Apache writes the virtual host first.
		{"combined", `www.e.org:443 10.1.2.3 - jane [10/Oct/2026:13:55:36 +0000] "GET http://e.org/a?b HTTP/1.1" 200 1 "-" "x"`, time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC), map[string]string{
			"{ip} {user} {path}": "10.1.2.3 jane /a",
		}},
		{"combined", `www.e.org:443 2001:db8::1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1`, time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC), map[string]string{"{ip} {user}": "2001:db8::1 -"}},
		{"alb", albLine, time.Date(2026, 4, 15, 20, 17, 0, 186641e3, time.UTC), map[string]string{
			"{ip} {method} {path} {status} {bytes}": "2001:db8::1 GET /a 200 57", "{header:user-agent} {upstream}": "curl/7.46.0 10.0.0.1:80",
		}},
		{"json", traefikText, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), map[string]string{"{ip} {method} {path} {status} {user}": "10.1.2.3 GET /a 200 -"}},
		{"json", gcpText, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), map[string]string{"{ip} {method} {path} {status}": "10.1.2.3 GET /a 200"}},
		{"json", ecsText, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), map[string]string{"{ip} {method} {path} {uri} {status}": "10.1.2.3 GET /a /a?b 200"}},
		{"json", `{"ts":1776284220,"request":{"remote_addr":"[2001:db8::1]:5555"}}`, time.Unix(1776284220, 0).UTC(), map[string]string{"{ip}": "2001:db8::1"}},
		{"json", `{"time":"2026-04-15T20:17:00+0000","request":"GET /a?b HTTP/1.1"}`, time.Date(2026, 4, 15, 20, 17, 0, 0, time.UTC), map[string]string{"{method} {path} {uri}": "GET /a /a?b"}},
		{"json", `{"time":"2026-04-15 22:17:00.250+0200"}`, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), nil},
		{"json", `{"time":"2026-04-15 20:17:00,250"}`, time.Date(2026, 4, 15, 20, 17, 0, 250e6, time.UTC), nil},
		{"json", `{"ts":1776284220250000}`, time.Unix(1776284220, 250e6).UTC(), nil},
		{"json", `{"ts":1776284220250000000}`, time.Unix(1776284220, 250e6).UTC(), nil},
		{"json", `{"msec":1776284220250}`, time.Unix(1776284220, 250e6).UTC(), map[string]string{"{ip}": "-"}},
	} {
		f, err := Lookup(tt.format)
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Line(tt.line)
		if err != nil {
			t.Fatal(err)
		}
		if d := r.At.Sub(tt.at); d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("%s: at %s, want %s", tt.line, r.At, tt.at)
		}
		for template, want := range tt.templates {
			key, err := f.Template(template)
			if err != nil {
				t.Error(err)
			} else if got := key.Of(r); got != want {
				t.Errorf("%s of %s is %q, want %q", template, tt.line, got, want)
			}
		}
	}
}

func TestMistakesSayWhatToWrite(t *testing.T) {
	for _, tt := range []struct{ format, line, want string }{
		{"combined", "", "a field is missing"},
		{"combined", "10.1.2.3 - -", "there is no ["},
		{"combined", strings.Replace(combinedLine, "Oct", "Okt", 1), "the time is"},
		{"combined", `::1 - - [10/Oct/2026:13:55:36 +0000] "GET /`, "a quote has no end"},
		{"combined", `::1 - - [10/Oct/2026:13:55:36 +0000] "GET /" 200 1 x`, "no text in quotes"},
		{"envoy", combinedLine, "no time in brackets"},
		{"envoy", jsonText, "format is json"},
		{"envoy", strings.Replace(envoyLine, "2026-", "26-", 1), "the time is"},
		{"alb", combinedLine, "alb lines are"},
		{"alb", strings.Replace(albLine, "2026-", "26-", 1), "the time is"},
		{"json", "[1]", "no JSON object"},
		{"json", `{"time":1,"request":"/\x22"}`, "invalid character 'x' in string escape code"},
		{"json", `{"time":1} {"time":2}`, "more than a JSON object"},
		{"json", `{"time":1,`, "no whole JSON object"},
		{"json", "null", "no JSON object"},
		{"json", "{}", "time, timestamp, @timestamp"},
		{"json", `{"time":"today"}`, "RFC 3339"},
	} {
		f, err := Lookup(tt.format)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Line(tt.line); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %.60q: err = %v, want %s", tt.format, tt.line, err, tt.want)
		}
	}
	if _, err := Lookup("squid"); err == nil || !strings.Contains(err.Error(), "use alb, combined, envoy, json") {
		t.Errorf("err = %v", err)
	}
	f, err := Lookup("combined")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"": "is empty", "{ip": "has no name and }", "{}": "has no name", "{host}": "known are {ip}, {user}"} {
		if _, err := f.Template(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: err = %v, want %s", text, err, want)
		}
	}
}

func TestTheFormatOfALineIsGuessed(t *testing.T) {
	for line, want := range map[string]string{combinedLine: "combined", envoyLine: "envoy", albLine: "alb", jsonText: "json", "what": ""} {
		if got := Guess(line); got != want {
			t.Errorf("%.40q looks like %q, want %q", line, got, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, line := range []string{combinedLine, envoyLine, albLine, jsonText, `a - - [] "\`, `{"time":1e300}`, `{"ts":-1}`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for name, format := range formats {
			r, err := format.Line(line)
			if err != nil {
				continue
			}
			key, err := format.Template("{ip} {method} {path} {status} {header:user-agent}")
			if err != nil {
				t.Fatal(err)
			}
			if got := key.Of(r); utf8.ValidString(line) && !utf8.ValidString(got) || strings.Count(got, " ") < 4 {
				t.Errorf("%s: the key of %q is %q", name, line, got)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package accesslog

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

const combinedTime = "02/Jan/2006:15:04:05 -0700"

// combined reads
//
//	10.1.2.3 - user [10/Oct/2026:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 2326 "referer" "user agent"
//
// The last two are not in the common format. More fields may follow. A name of a virtual
// host may stand before the address, as in Apache's vhost_combined.
func combined(line string) (Record, error) {
	s := splitter{rest: line}
	ip, second := s.word(), s.word()
	if isAddress(second) && !isAddress(ip) {
		ip = second
		s.word()
	}
	user, when := s.until("["), s.bracket()
	request, status, bytes := s.quoted(), s.word(), s.word()
	if s.err != nil {
		return Record{}, fmt.Errorf("%w in %.80q: combined lines are: ip - user [time] \"request\" status bytes \"referer\" \"user agent\"", s.err, line)
	}
	at, err := time.Parse(combinedTime, when)
	if err != nil {
		return Record{}, fmt.Errorf("the time is %.40q: write it as in [%s]", when, combinedTime)
	}
	values := map[string]string{"ip": ip, "user": user, "status": status, "bytes": bytes}
	requestLine(request, values)
	if strings.TrimSpace(s.rest) != "" {
		referer, agent := s.quoted(), s.quoted()
		if s.err != nil {
			return Record{}, fmt.Errorf("%w in %.80q: after status and bytes come \"referer\" and \"user agent\"", s.err, line)
		}
		values["header:referer"], values["header:user-agent"] = referer, agent
	}
	return record(at, values), nil
}

// envoy reads Envoy's default format:
//
//	[2026-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent" "request id" "authority" "upstream"
//
// Istio's has three fields more after the status and the flags: two that say why, and one in quotes.
func envoy(line string) (Record, error) {
	if strings.HasPrefix(line, "{") {
		return Record{}, errors.New("the line is a JSON object: this log's format is json")
	}
	s := splitter{rest: line}
	when, request, status, _, received := s.bracket(), s.quoted(), s.word(), s.word(), s.word()
	if s.err == nil && strings.Trim(received, "0123456789") != "" {
		_, _, _ = s.word(), s.quoted(), s.word()
	}
	bytes, _, _ := s.word(), s.word(), s.word()
	forwarded, agent, id, authority, upstream := s.quoted(), s.quoted(), s.quoted(), s.quoted(), s.quoted()
	if s.err != nil {
		return Record{}, fmt.Errorf("%w in %.80q: write Envoy's default format", s.err, line)
	}
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return Record{}, fmt.Errorf("the time is %.40q: write it as in [2026-04-15T20:17:00.310Z]", when)
	}
	values := map[string]string{
		"ip": address(forwarded), "status": status, "bytes": bytes, "header:x-forwarded-for": forwarded,
		"header:user-agent": agent, "header:x-request-id": id, "header:authority": authority, "upstream": upstream,
	}
	requestLine(request, values)
	return record(at, values), nil
}

// alb reads what AWS application load balancers write:
//
//	https 2026-04-15T20:17:00.186641Z app/lb/50dc6c49 10.1.2.3:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://e.org:443/a HTTP/1.1" "agent" …
func alb(line string) (Record, error) {
	s := splitter{rest: line}
	_, when, _, client, target := s.word(), s.word(), s.word(), s.word(), s.word()
	for range 3 { // how long it took
		s.word()
	}
	status, _, _, sent := s.word(), s.word(), s.word(), s.word()
	request, agent := s.quoted(), s.quoted()
	if s.err != nil {
		return Record{}, fmt.Errorf("%w in %.80q: alb lines are: type time elb client:port target:port, three times, two status codes, two sizes, \"request\" \"user agent\"", s.err, line)
	}
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return Record{}, fmt.Errorf("the time is %.40q: write it as in 2026-04-15T20:17:00.186641Z", when)
	}
	values := map[string]string{"ip": address(client), "status": status, "bytes": sent, "header:user-agent": agent, "upstream": target}
	requestLine(request, values)
	return record(at, values), nil
}

// isAddress reports whether text is an IP address.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func record(at time.Time, values map[string]string) Record {
	return Record{At: at, field: func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}}
}

// requestLine takes a request such as "GET /a?b HTTP/1.1" apart. What is none has
// no method and no path.
func requestLine(request string, values map[string]string) {
	parts := strings.Split(request, " ")
	if len(parts) < 2 {
		return
	}
	values["method"], values["uri"] = parts[0], parts[1]
	values["path"] = path(parts[1])
	if len(parts) > 2 {
		values["protocol"] = parts[2]
	}
}

// path is the path of a URI, or of a whole URL.
func path(uri string) string {
	before, _, _ := strings.Cut(uri, "?")
	if _, after, ok := strings.Cut(before, "://"); ok && !strings.HasPrefix(before, "/") {
		_, rest, _ := strings.Cut(after, "/")
		return "/" + rest
	}
	return before
}

// splitter takes a line apart, from the left. The first mistake stays.
type splitter struct {
	rest string
	err  error
}

func (s *splitter) fail(what string) string {
	if s.err == nil {
		s.err = errors.New(what)
	}
	s.rest = ""
	return ""
}

// word is what stands before the next space.
func (s *splitter) word() string {
	s.rest = strings.TrimLeft(s.rest, " ")
	word, rest, _ := strings.Cut(s.rest, " ")
	if word == "" {
		return s.fail("a field is missing")
	}
	s.rest = rest
	return word
}

// until is what stands before a sign, which may have spaces.
func (s *splitter) until(sign string) string {
	i := strings.Index(s.rest, sign)
	if i < 0 {
		return s.fail("there is no " + sign)
	}
	text := strings.TrimSpace(s.rest[:i])
	s.rest = s.rest[i:]
	return text
}

// bracket is what stands between [ and ].
func (s *splitter) bracket() string {
	s.rest = strings.TrimLeft(s.rest, " ")
	text, rest, ok := strings.Cut(s.rest, "]")
	if !ok || text == "" || text[0] != '[' {
		return s.fail("there is no time in brackets")
	}
	s.rest = rest
	return text[1:]
}

// quoted is what stands between quotes, in which \ escapes the next sign.
func (s *splitter) quoted() string {
	s.rest = strings.TrimLeft(s.rest, " ")
	if s.rest == "" || s.rest[0] != '"' {
		return s.fail("there is no text in quotes where one should be")
	}
	escaped := false
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
			escaped = true
		case '"':
			text := s.rest[1:i]
			s.rest = s.rest[i+1:]
			if escaped {
				text = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text)
			}
			return text
		}
	}
	return s.fail("a quote has no end")
}

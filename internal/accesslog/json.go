// SPDX-License-Identifier: Apache-2.0

package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// others are the names that servers give to a field, in the order in which they
// are looked for. A dot leads into an object.
var others = map[string][]string{
	"time": {"StartUTC", "time", "timestamp", "@timestamp", "ts", "time_iso8601", "start_time", "time_local", "msec"},
	"ip": {
		"ip", "remote_addr", "client_ip", "remote_ip", "request.client_ip", "request.remote_ip", "request.remote_addr", "ClientHost", "client.ip",
		"source.ip", "httpRequest.remoteIp", "x_forwarded_for", "downstream_remote_address",
	},
	"method": {"method", "request_method", "request.method", "RequestMethod", "httpRequest.requestMethod", "http.request.method"},
	"uri":    {"uri", "request_uri", "url", "request.uri", "RequestPath", "httpRequest.requestUrl", "url.original", "path"},
	"path":   {"path", "uri", "request_uri", "url", "request.uri", "RequestPath", "httpRequest.requestUrl", "url.path", "url.original"},
	"status": {"status", "status_code", "response_code", "DownstreamStatus", "httpRequest.status", "http.response.status_code"},
	"user":   {"user", "remote_user", "user_id", "ClientUsername", "user.name"},
}

// jsonLine reads an object. Names that servers usually use stand for {ip},
// {method}, {path} and {status}; all others are what they are in the line.
func jsonLine(line string) (Record, error) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var object map[string]any
	err := d.Decode(&object)
	if err == nil && object != nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return Record{}, fmt.Errorf("%.80q has more than a JSON object: write one per line", line)
		}
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Record{}, fmt.Errorf("%.80q is no whole JSON object: write one per line", line)
	case err != nil:
		return Record{}, fmt.Errorf("%.80q is no JSON object (%w): write one per line", line, err)
	case object == nil:
		return Record{}, fmt.Errorf("%.80q is no JSON object: write one per line", line)
	}
	when, ok := first(object, "time")
	if !ok {
		return Record{}, fmt.Errorf("%.80q has no time: name it one of %s", line, strings.Join(others["time"], ", "))
	}
	at, err := jsonTime(when)
	if err != nil {
		return Record{}, err
	}
	return Record{At: at, field: func(name string) (string, bool) {
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			return jsonHeader(object, header)
		}
		v, ok := first(object, name)
		if !ok {
			v, ok = ofRequest(object, name)
		}
		switch name {
		case "path":
			v = path(v)
		case "ip":
			v = address(v)
		}
		return v, ok
	}}, nil
}

// ofRequest is a field of a whole request, as nginx's $request is: "GET /a HTTP/1.1".
func ofRequest(object map[string]any, name string) (string, bool) {
	request, ok := object["request"].(string)
	if !ok {
		return "", false
	}
	values := make(map[string]string)
	requestLine(request, values)
	v, ok := values[name]
	return v, ok
}

// address is the first address of a list, without its port.
func address(list string) string {
	one, _, _ := strings.Cut(list, ",")
	one = strings.TrimSpace(one)
	if both, err := netip.ParseAddrPort(one); err == nil {
		return both.Addr().String()
	}
	return one
}

// layouts are those of times. What has no zone is taken for UTC: only the distances
// between times count.
var layouts = []string{
	time.RFC3339Nano, combinedTime, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05",
}

// jsonTime reads RFC 3339 and what is much like it, the time of combined logs, or seconds,
// milliseconds, microseconds or nanoseconds since 1970.
func jsonTime(text string) (time.Time, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v > 0 && v < 1e20 {
		for v > 1e11 {
			v /= 1000
		}
		whole, part := math.Modf(v)
		return time.Unix(int64(whole), int64(part*1e9)).UTC(), nil
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("the time is %.40q: write RFC 3339, or seconds since 1970", text)
}

// first finds a field under one of its names.
func first(object map[string]any, name string) (string, bool) {
	names := others[name]
	if names == nil {
		names = []string{name}
	}
	for _, n := range names {
		if v, ok := find(object, n); ok && v != "" && v != "-" {
			return v, true
		}
	}
	return "", false
}

// find follows the dots of a name, unless a field has the whole name.
func find(object map[string]any, name string) (string, bool) {
	if v, ok := object[name]; ok {
		return scalar(v)
	}
	outer, inner, ok := strings.Cut(name, ".")
	if !ok {
		return "", false
	}
	below, ok := object[outer].(map[string]any)
	if !ok {
		return "", false
	}
	return find(below, inner)
}

// scalar is a value as text; of a list, its first.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case []any:
		if len(v) > 0 {
			return scalar(v[0])
		}
	}
	return "", false
}

// jsonHeader finds a header: user-agent may be user_agent, http_user_agent, or in
// an object headers or request.headers, in any case.
func jsonHeader(object map[string]any, header string) (string, bool) {
	snake := strings.ReplaceAll(header, "-", "_")
	for _, name := range []string{header, snake, "http_" + snake} {
		if v, ok := find(object, name); ok {
			return v, true
		}
	}
	request, _ := object["request"].(map[string]any)
	for _, outer := range []map[string]any{object, request} {
		headers, _ := outer["headers"].(map[string]any)
		best, found := "", false
		for name, value := range headers {
			if v, ok := scalar(value); ok && strings.EqualFold(name, header) && (!found || v < best) {
				best, found = v, true
			}
		}
		if found {
			return best, true
		}
	}
	return "", false
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that speaks plain HTTP to a TLS port, as often as it can, fills no log.
func TestMishapsOfConnectionsAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		server := new(http.Server)
		logMishaps(server, slog.New(slog.NewTextHandler(&out, nil)), "http")
		for second := range 3 {
			for i := range 1000 {
				server.ErrorLog.Printf("http: TLS handshake error from 192.0.2.1:%d: client sent an HTTP request to an HTTPS server", 1024+i)
				server.ErrorLog.Printf("http: TLS handshake error from [2001:db8::%x]:1: EOF", i)
			}
			for cause, want := range map[string]int{"client sent": 1, "EOF": 1} {
				if got := strings.Count(out.String(), cause); got != want {
					t.Errorf("second %d: %d lines of %s", second, got, cause)
				}
			}
			if told := strings.Contains(out.String(), "withheld=1998"); told != (second > 0) {
				t.Errorf("second %d: %s", second, &out)
			}
			out.Reset()
			time.Sleep(time.Second)
		}
		for i := range 1000 {
			server.ErrorLog.Printf("http: TLS handshake error from 192.0.2.1:1: tls: unsupported protocols [%s]", strings.Repeat("x", i))
		}
		if got := strings.Count(out.String(), "\n"); got != maxMishaps {
			t.Errorf("%d lines with words that the client chose", got)
		}
		out.Reset()
		time.Sleep(time.Second)
		server.ErrorLog.Print("http: panic serving 192.0.2.1:1: oh\ngoroutine 1\n")
		if got := out.String(); !strings.Contains(got, `oh\ngoroutine 1" server=http withheld=`+fmt.Sprint(1000-maxMishaps)) || !strings.Contains(got, "level=WARN") {
			t.Errorf("%s", got)
		}
	})
}

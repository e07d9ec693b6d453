// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that speaks plain HTTP to a TLS port, as often as it can, fills no log.
func TestMishapsOfConnectionsAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		server := slog.NewLogLogger(slog.New(New(slog.NewTextHandler(&out, nil))).With("server", "http").Handler(), slog.LevelWarn)
		for second := range 3 {
			for i := range 1000 {
				server.Printf("http: TLS handshake error from 192.0.2.1:%d: client sent an HTTP request to an HTTPS server", 1024+i)
				server.Printf("http: TLS handshake error from [2001:db8::%x]:1: EOF", i)
				server.Printf("http: TLS handshake error from 192.0.2.1:1: message of length %d", i)
				server.Printf("http: TLS handshake error from 192.0.2.1:1: tls: unsupported protocols (%q)", []string{strings.Repeat("x", i), `"` + strings.Repeat("y", i)}[i%2:])
			}
			for cause, want := range map[string]int{"client sent": 1, "EOF": 1, "length": 1, "protocols": 1} {
				if got := strings.Count(out.String(), cause); got != want {
					t.Errorf("second %d: %d lines of %s", second, got, cause)
				}
			}
			if told := strings.Contains(out.String(), "withheld=3996"); told != (second > 0) {
				t.Errorf("second %d: %s", second, &out)
			}
			out.Reset()
			time.Sleep(time.Second)
		}
		for i := range 1000 {
			server.Printf("http: TLS handshake error from 192.0.2.1:1: tls: unsupported protocols [%s]", strings.Repeat("x", i))
		}
		if got := strings.Count(out.String(), "\n"); got != maxCauses {
			t.Errorf("%d lines with words that the client chose", got)
		}
		out.Reset()
		time.Sleep(time.Second)
		server.Print("http: panic serving 192.0.2.1:1: oh\ngoroutine 1\n")
		if got := out.String(); !strings.Contains(got, `oh\ngoroutine 1" server=http withheld=`+fmt.Sprint(1000-maxCauses)) || !strings.Contains(got, "level=WARN") {
			t.Errorf("%s", got)
		}
	})
}

// A line that itself says how many like it were withheld, as gossip's do, says it once.
func TestALineSaysOnceHowManyWereWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, nil)))
		for range 4 {
			log.Error("two hosts", "withheld", 0)
		}
		time.Sleep(time.Second)
		out.Reset()
		log.Error("two hosts", "withheld", 2)
		if got := out.String(); strings.Count(got, "withheld=") != 1 || !strings.Contains(got, "withheld=5") {
			t.Error(got)
		}
	})
}

// A TLS handshake may name 64 KiB of protocols, which its error repeats.
func TestLongTextsAreCut(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(New(slog.NewTextHandler(&out, nil)))
	long := strings.Repeat("é", maxText)
	log.Warn("TLS handshake error", "from", "192.0.2.1:1", "error", errors.New(long))
	log.Warn(long, "n", 7)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []string{"from=192.0.2.1:1", "n=7"} {
		if n := len(lines[i]); n > maxText+200 || !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "é…") {
			t.Errorf("a line of %d bytes: %.100s", n, lines[i])
		}
	}
	out.Reset()
	log.Warn("short", "error", errors.New("no file"))
	if !strings.HasSuffix(out.String(), "msg=short error=\"no file\"\n") {
		t.Error(out.String())
	}
}

// A client that finds as many causes as are logged, each with texts as long as are logged, fills no
// disk, and what else is logged is read in full.
func TestLongLinesAreBoundedInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, nil)))
		word := func(i int) string { return strings.Repeat(string(rune('a'+i)), maxText) }
		for second := range 60 {
			for i := range maxCauses - 1 {
				log.Warn("refused", "from", word(second%26), "path", word(i), "error", errors.New(word(i)))
			}
			log.Error("limits refused", "error", errors.New("no file"))
			time.Sleep(time.Second)
		}
		if n := out.Len(); n > 1<<20 {
			t.Errorf("%d bytes in a minute", n)
		}
		if n := strings.Count(out.String(), `msg="limits refused" error="no file"`); n != 60 {
			t.Errorf("%d of 60 short lines", n)
		}
		out.Reset()
		time.Sleep(time.Minute)
		log.Error("panic", "stack", word(0))
		if n := out.Len(); n < maxText {
			t.Errorf("a minute later, a stack is cut to %d bytes", n)
		}
	})
}

func TestACauseIsAMessageAndItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, nil)))
		refused := func(err string) { log.Error("refused", "key", out.Len(), "error", errors.New(err)) }
		for range 100 {
			for _, err := range []string{"no file", "no room on device 1", "no room on device 2", "dial 192.0.2.1:1", "dial 192.0.2.1:2"} {
				refused(err)
			}
			log.With("at", "edge").WithGroup("of").Info("passes")
		}
		for text, want := range map[string]int{"level=ERROR": 3, "level=INFO": 100} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%d lines with %s, want %d", got, text, want)
			}
		}
		// A second after the line, and no sooner.
		for _, row := range []struct {
			after time.Duration
			lines int
		}{{0, 0}, {999 * time.Millisecond, 0}, {time.Millisecond, 1}, {999 * time.Millisecond, 0}} {
			out.Reset()
			time.Sleep(row.after)
			refused("no file")
			if got := strings.Count(out.String(), "\n"); got != row.lines {
				t.Errorf("after %v: %d lines, want %d", row.after, got, row.lines)
			}
		}
	})
}

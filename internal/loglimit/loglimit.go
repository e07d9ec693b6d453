// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// every is how often one cause is logged.
	every = time.Second
	// maxCauses bounds the causes that one logger logs in that time: clients choose
	// some of the words.
	maxCauses = 16
	// maxText is the most that is logged of a message, and of each of its values, in bytes:
	// clients choose some of the words, and how many. A stack is shorter.
	maxText = 8 << 10
	// atOnce is how many bytes one logger logs with texts of up to maxText, and eachSecond how
	// many more in a second. Beyond that, texts are cut to shortText.
	atOnce     = 64 << 10
	eachSecond = 2 << 10
	shortText  = 256
	// key is the name of the value that says how many lines were withheld.
	key = "withheld"
)

// Handler is a slog.Handler that withholds lines, and cuts long ones. The next line that the
// same logger logs says how many were withheld, as `withheld`, one value for those that the caller withheld too. Use New. Safe for concurrent use.
type Handler struct {
	next slog.Handler
	of   *causes
}

// New returns a Handler that hands to next what is logged.
func New(next slog.Handler) *Handler { return &Handler{next, new(causes)} }

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	now := time.Now()
	withheld, ok := h.of.admit(now, causeOf(r))
	if !ok {
		return nil
	}
	r = cut(r, maxText)
	if !h.of.pay(now, size(r)) {
		r = cut(r, shortText)
	}
	if withheld > 0 {
		r = tell(r, withheld)
	}
	return h.next.Handle(ctx, r)
}

// tell is r with how many lines were withheld, with those that r itself says, if it does.
func tell(r slog.Record, withheld int) slog.Record {
	told := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key && a.Value.Kind() == slog.KindInt64 {
			withheld += int(a.Value.Int64())
		} else {
			told.AddAttrs(a)
		}
		return true
	})
	told.AddAttrs(slog.Int(key, withheld))
	return told
}

// WithAttrs implements slog.Handler. The Handler that it returns has causes of its
// own.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler { return New(h.next.WithAttrs(attrs)) }

// WithGroup implements slog.Handler, as WithAttrs.
func (h *Handler) WithGroup(name string) slog.Handler { return New(h.next.WithGroup(name)) }

// causes is what one logger has logged of late.
type causes struct {
	mu       sync.Mutex // protects following fields
	logged   map[string]time.Time
	withheld int // lines, since one was logged
	spent    int // bytes, less those of the seconds since
	since    time.Time
}

// admit reports whether a line with this cause is logged now, and how many were
// withheld since the last that was.
func (c *causes) admit(now time.Time, cause string) (withheld int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if last, found := c.logged[cause]; !found || now.Sub(last) >= every {
		maps.DeleteFunc(c.logged, func(_ string, at time.Time) bool { return now.Sub(at) >= every })
		ok = len(c.logged) < maxCauses
	}
	if !ok {
		c.withheld++
		return 0, false
	}
	if c.logged == nil {
		c.logged = make(map[string]time.Time)
	}
	c.logged[cause] = now
	withheld, c.withheld = c.withheld, 0
	return withheld, true
}

// pay reports whether bytes are logged now without being cut, and counts them if so.
func (c *causes) pay(now time.Time, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	seconds := min(now.Sub(c.since).Seconds(), atOnce/eachSecond)
	spent := max(c.spent-int(seconds*eachSecond), 0) + bytes
	if spent > atOnce {
		return false
	}
	c.spent, c.since = spent, now
	return true
}

// size is how many bytes the texts of r take, with what escapes them.
func size(r slog.Record) int {
	bytes := len(strconv.Quote(r.Message))
	r.Attrs(func(a slog.Attr) bool {
		bytes += len(a.Key) + len(strconv.Quote(a.Value.String()))
		return true
	})
	return bytes
}

// cut is r with no text that is longer than most bytes.
func cut(r slog.Record, most int) slog.Record {
	long := len(r.Message) > most
	r.Attrs(func(a slog.Attr) bool {
		long = long || len(a.Value.String()) > most
		return !long
	})
	if !long {
		return r
	}
	short := slog.NewRecord(r.Time, r.Level, clip(r.Message, most), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); len(text) > most {
			a.Value = slog.StringValue(clip(text, most))
		}
		short.AddAttrs(a)
		return true
	})
	return short
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// varies is what is quoted, where a connection comes from, and numbers: clients choose words and
// lengths.
var varies = regexp.MustCompile(`(?:"(?:\\.|[^"\\])*(?:"\s*|…?$))+|\S+:\d+|\d+`)

// causeOf is the first line of r's message, and of its error, without what varies.
func causeOf(r slog.Record) string {
	cause, _, _ := strings.Cut(r.Message, "\n")
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text, _, _ := strings.Cut(a.Value.String(), "\n")
			cause += ": " + text
		}
		return true
	})
	return varies.ReplaceAllString(cause, "")
}

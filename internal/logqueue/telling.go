// SPDX-License-Identifier: Apache-2.0

package logqueue

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// telling is a slog.Handler whose lines say how many were lost, when that has changed.
type telling struct {
	slog.Handler

	lines *Writer
	told  *atomic.Int64
}

// Telling is next, which writes to w. If lines were lost, the next one says how many since
// the start, as `lost`.
func (w *Writer) Telling(next slog.Handler) slog.Handler { return telling{next, w, new(atomic.Int64)} }

// Handle implements slog.Handler.
func (h telling) Handle(ctx context.Context, r slog.Record) error {
	if lost := h.lines.Lost(); h.told.Swap(lost) != lost {
		r = r.Clone()
		r.AddAttrs(slog.Int64("lost", lost))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h telling) WithAttrs(attrs []slog.Attr) slog.Handler {
	return telling{h.Handler.WithAttrs(attrs), h.lines, h.told}
}

// WithGroup implements slog.Handler.
func (h telling) WithGroup(name string) slog.Handler {
	return telling{h.Handler.WithGroup(name), h.lines, h.told}
}

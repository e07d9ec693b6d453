// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// notices keeps the newest warning of all hosts, so that logs do not write
// over a view. Safe for concurrent use.
type notices struct {
	mu   sync.Mutex // protects following fields
	last string
}

// newest is the newest warning in one line.
func (n *notices) newest() string {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.last
}

func (n *notices) set(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()

	n.last = line
}

// handler is the slog.Handler of one host.
type handler struct {
	*notices

	host string
	name func(address string) string // of a host
}

var _ slog.Handler = handler{}

func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle keeps the message and which host it is about. The error goes without
// saying: the demo breaks things on purpose.
func (h handler) Handle(_ context.Context, record slog.Record) error {
	line := h.host + ": " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "owner" {
			line += fmt.Sprintf(" (%s)", h.name(a.Value.String()))
		}
		return true
	})
	h.set(strings.Join(strings.Fields(line), " "))
	return nil
}

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h handler) WithGroup(string) slog.Handler { return h }

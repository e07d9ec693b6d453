// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/loglimit"
)

// logging is how a command logs.
type logging struct{ format, level string }

// flags adds l's flags to cmd.
func (l *logging) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&l.format, "log-format", "text", "how log lines are written, text or json")
	flags.StringVar(&l.level, "log-level", "info", "the lowest level that is logged: debug, info, warn or error")
}

// levels are the levels by their names.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// to returns the log that goes to w. Clients can make it log each warning at most once
// a second.
func (l *logging) to(w io.Writer) (*slog.Logger, error) {
	level, ok := levels[strings.ToLower(l.level)]
	if !ok {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(loglimit.New(slog.NewTextHandler(w, options))), nil
	case "json":
		return slog.New(loglimit.New(slog.NewJSONHandler(w, options))), nil
	default:
		return nil, fmt.Errorf("--log-format %q: use text or json", l.format)
	}
}

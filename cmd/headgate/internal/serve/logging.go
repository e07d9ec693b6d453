// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/loglimit"
	"github.com/headgate/headgate/internal/logqueue"
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

// to returns the log that goes to w. After an error, it is a log that goes nowhere.
func (l *logging) to(w io.Writer) (*slog.Logger, error) {
	handler, err := l.handler(w)
	return slog.New(handler), err
}

// queued returns the log that goes to lines. Clients can make it log each warning at most once
// a second.
func (l *logging) queued(lines *logqueue.Writer) (*slog.Logger, error) {
	handler, err := l.handler(lines)
	return slog.New(loglimit.New(lines.Telling(handler))), err
}

func (l *logging) handler(w io.Writer) (handler slog.Handler, err error) {
	level, ok := levels[strings.ToLower(l.level)]
	var errs []error
	if !ok {
		errs = append(errs, &daemon.Mistake{Settings: []string{"log-level"}, Err: fmt.Errorf("log level %q: use debug, info, warn or error", l.level)})
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		handler = slog.NewTextHandler(w, options)
	case "json":
		handler = slog.NewJSONHandler(w, options)
	default:
		errs = append(errs, &daemon.Mistake{Settings: []string{"log-format"}, Err: fmt.Errorf("log format %q: use text or json", l.format)})
	}
	if len(errs) > 0 {
		return slog.DiscardHandler, errors.Join(errs...)
	}
	return handler, nil
}

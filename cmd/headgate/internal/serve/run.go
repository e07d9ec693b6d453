// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/internal/logqueue"
	"github.com/headgate/headgate/limiter/redis"
)

// errBroken is the error after the mistakes of the limits were shown, which take more than a line.
var errBroken = errors.New("serve: the limits are broken; see above")

// lastLines is how long the end waits for what reads the log.
const lastLines = time.Second

// run runs a daemon until ctx ends, which does not wait for what reads its log.
func run(ctx context.Context, c daemon.Config, l *logging, stdout, stderr io.Writer) error {
	lines := logqueue.New(stderr)
	defer lines.Close(lastLines)
	log, err := l.queued(lines)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		collectSooner()
	}
	redis.LogTo(log)
	defer stand(log)()
	d, err := daemon.Start(ctx, c, log)
	if err != nil {
		if ctx.Err() != nil { // ended while it waited for the members
			return nil
		}
		if _, ok := errors.AsType[*dynamicconfig.Error](err); ok {
			fmt.Fprintln(stderr, err)
			if data, err := filewatch.Read(c.Limits, dynamicconfig.MaxSize); err == nil {
				limitsfile.HintImport(stderr, c.Limits, data)
			}
			return errBroken
		}
		return (&limitsdb.DB{Where: c.LimitsDB}).Remedy(err)
	}
	_, err = io.WriteString(stdout, endpoints(d, c))
	if err == nil {
		select {
		case <-ctx.Done():
		case <-d.Ended():
		}
	}
	log.Info("stopping")
	return errors.Join(err, d.Stop(context.WithoutCancel(ctx)))
}

// stand has no signal end the daemon but those for that, until the function that it returns is
// called: what reads the daemon's output may end before the daemon.
func stand(log *slog.Logger) (stop func()) {
	signal.Ignore(syscall.SIGPIPE)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			log.Info("SIGHUP changes nothing: files are read again as they change")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

// endpoints returns what run prints when d is ready: a line for each endpoint.
func endpoints(d *daemon.Daemon, c daemon.Config) string {
	text := fmt.Sprintf("cluster  %s  for other deciders\nedge     %s  gRPC: %s\n", d.Address(), d.Edge(), strings.Join(d.Services(), ", "))
	if at := d.HTTP(); at != "" {
		text += fmt.Sprintf("http     %s  POST /v1/allow; more: GET /v1/openapi.json\n", at)
	}
	if c.Unix != "" {
		text += fmt.Sprintf("unix     %s  gRPC and HTTP\n", c.Unix)
	}
	if at := d.Admin(); at != "" {
		more := ""
		if c.Operators != "" {
			scheme := "http://"
			if c.AdminTLS.Cert != "" {
				scheme = "https://"
			}
			more = "\npages    " + scheme + at + "/  for operators; GET /v1/openapi.json"
		}
		text += fmt.Sprintf("admin    %s  GET /metrics, /readyz, /debug/pprof/%s\n", at, more)
	}
	return text
}

// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/internal/recent"
)

// Watch looks at what a change of limits rejects, and takes it back if that is too much.
type Watch struct {
	length time.Duration
	above  string // a percentage; empty: only look
	part   float64
}

const (
	watchFrom  = 4 * time.Second // after a change: until then, members may go by the limits before
	watchEvery = 2 * time.Second
	watchLeast = 20 // tokens: what fewer were offered says little
)

// Flags adds the flags of the watch.
func (w *Watch) Flags(flags *pflag.FlagSet) {
	flags.DurationVar(&w.length, "watch", 0, "look for so long at what is rejected of the keys that change, at most 1h; needs --admin")
	flags.StringVar(&w.above, "roll-back-above", "", "take the change back if more than this `percentage` is rejected while it is watched, as in 5%")
}

// On reports whether the change is watched.
func (w *Watch) On() bool { return w.length != 0 }

// Check refuses flags that make no sense, and keeps what they mean for Run. d is asked what is
// rejected. staged says that each step of a change is watched.
func (w *Watch) Check(d *adminclient.Decider, staged bool) error {
	if w.above != "" {
		number, isPercent := strings.CutSuffix(w.above, "%")
		part, err := strconv.ParseFloat(number, 64)
		if !isPercent || err != nil || !(part >= 0 && part < 100) {
			return fmt.Errorf("--roll-back-above %q: write a percentage below 100, as in 5%%", w.above)
		}
		w.part = part / 100
	}
	switch {
	case w.length == 0 && w.above != "" && !staged:
		return errors.New("--roll-back-above: say for how long the change is watched, as in --watch 5m")
	case w.length < 0 || w.length > recent.Hour:
		return fmt.Errorf("--watch %v: at most %v is possible", w.length, recent.Hour)
	case w.length > 0 && d.Address == "":
		return errors.New("--watch: say which decider to ask what is rejected, as in --admin 10.0.0.7:7936")
	}
	return nil
}

// Run watches version stored, which took the place of before. The error says that it was
// taken back.
func (w *Watch) Run(ctx context.Context, out io.Writer, s adminclient.Store, before, stored history.Version) error {
	if w.above != "" { // it guards the change also when its reader has ended, or its terminal is closed
		signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	}
	fmt.Fprintf(out, "watching for %v what is rejected; to stop watching ends nothing else\n", w.length)
	began := time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintf(out, "no longer watched: version %d stays\n", stored.Number)
			return nil
		case <-tick.C:
		}
		elapsed := time.Since(began)
		if elapsed < watchFrom {
			continue
		}
		if err := overtaken(ctx, s, before, stored); err != nil {
			if w.above == "" {
				fmt.Fprintln(out, err)
				return nil
			}
			return err
		}
		d, err := rejected(ctx, s, before, stored, min(elapsed, recent.Hour))
		if err != nil {
			fmt.Fprintf(out, "%v: %v\n", elapsed.Round(time.Second), err)
		} else {
			fmt.Fprintf(out, "%v: %s of %.0f rejected\n", elapsed.Round(time.Second), printable.Part(d.Rejected, d.Offered), d.Offered)
		}
		if w.above != "" && d.Offered >= watchLeast && d.Rejected > w.part*d.Offered {
			return w.back(ctx, out, s, before, stored, &d)
		}
		if elapsed >= w.length {
			if w.above != "" && err != nil && ctx.Err() == nil { // no step may follow
				return fmt.Errorf("version %d stays, and what it rejects is not known; to take it back, headgate limits rollback %d: %w", stored.Number, before.Number, err)
			}
			fmt.Fprintf(out, "version %d stays\n", stored.Number)
			return nil
		}
	}
}

// overtaken is the error of a watch whose version, stored, was replaced by a later one, which members follow instead.
// A decider that does not answer does not say so.
func overtaken(ctx context.Context, s adminclient.Store, before, stored history.Version) error {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	newest, err := s.Newest(ctx)
	if err != nil || newest.Number <= stored.Number {
		return nil //nolint:nilerr // the next look may find it
	}
	return fmt.Errorf("%s came after %s, which is not watched any more: `headgate top` shows what is rejected, and `headgate limits rollback %d` takes back both", newest.Name(), stored.Name(), before.Number)
}

// answered bounds how long a decider may take to answer. It waits 30 s for its members.
const answered = 40 * time.Second

// rejected is what was rejected lately, under version stored, of the keys that it limits otherwise
// than before.
func rejected(ctx context.Context, s adminclient.Store, before, stored history.Version, lately time.Duration) (d lasthour.DryRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	query := url.Values{"since": {lately.Round(time.Second).String()}, "under": {stored.Name()}}
	return d, s.Ask(ctx, http.MethodPost, "/v1/limits/dry-run?"+query.Encode(), before.Text, &d)
}

// back stores the text of before again. It goes on trying while the decider, or its database, does
// not answer: the change does harm meanwhile.
func (w *Watch) back(ctx context.Context, out io.Writer, s adminclient.Store, before, stored history.Version, d *lasthour.DryRun) error {
	why := fmt.Sprintf("%s of %.0f were rejected, and %s was the most", printable.Part(d.Rejected, d.Offered), d.Offered, w.above)
	c := history.Change{Base: stored.Number, Seen: stored.Fingerprint, Text: before.Text, Message: fmt.Sprintf("version %d is taken back: %s", stored.Number, why)}
	v, err := appended(ctx, s, c)
	for err != nil && !adminclient.Final(err) {
		fmt.Fprintf(out, "%s, and version %d is not taken back yet: %v\n", why, stored.Number, err)
		select {
		case <-ctx.Done():
		case <-time.After(watchEvery):
			v, err = appended(ctx, s, c)
			continue
		}
		break
	}
	if err != nil {
		return fmt.Errorf("%s, but version %d was not taken back: %w", why, stored.Number, err)
	}
	return fmt.Errorf("%s: version %d is taken back, and version %d has the limits of version %d", why, stored.Number, v.Number, before.Number)
}

// appended stores c. The answer to an earlier attempt may have been lost: then c is the newest
// version already.
func appended(ctx context.Context, s adminclient.Store, c history.Change) (history.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	v, err := s.Append(ctx, c)
	if _, other := errors.AsType[*history.Conflict](err); !other {
		return v, err
	}
	newest, failed := s.Newest(ctx)
	if failed == nil && newest.Number == c.Base+1 && newest.Message == c.Message {
		return newest, nil
	}
	return v, err
}

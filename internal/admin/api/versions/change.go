// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// put makes a text the newest version.
func (a *Answers) put(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	text, err := Body(w, r)
	if err != nil {
		return err
	}
	percent := 100.0
	if given := r.URL.Query().Get("enforce"); given != "" {
		if percent, err = strconv.ParseFloat(given, 64); err != nil || !(percent > 0 && percent <= 100) {
			return reply.Refuse(http.StatusBadRequest, "enforce=%.20q: write a percentage above 0, to 100", given)
		}
	}
	return a.Change(w, r, who, r.URL.Query().Get("message"), func(on history.Version) (string, error) {
		if percent == 100 {
			return text, nil
		}
		from, err := on.Parse()
		if err != nil {
			return "", reply.Refuse(http.StatusConflict, "%s cannot be used: there is nothing to take a step from", on.Name())
		}
		to, err := Parse(a.Limits, text)
		if err != nil {
			return "", err
		}
		return edit.Enforce(from, to, percent)
	})
}

// intact returns the text of v, if it is what was stored.
func intact(v history.Version) (string, error) {
	if err := v.Intact(); err != nil {
		return "", reply.Refuse(http.StatusConflict, "%v", err)
	}
	return v.Text, nil
}

// rollback makes an earlier version the newest again.
func (a *Answers) rollback(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	to, err := reply.Number(r, "to")
	if err != nil {
		return err
	}
	if to == 0 {
		return reply.Refuse(http.StatusBadRequest, "say which version, as in ?to=7")
	}
	message := r.URL.Query().Get("message")
	if message == "" {
		message = fmt.Sprintf("roll back to version %d", to)
	}
	return a.Change(w, r, who, message, func(history.Version) (string, error) {
		v, err := a.Store.Get(r.Context(), to)
		if err != nil {
			return "", err
		}
		return intact(v)
	})
}

// Change stores text, which may be made of the newest version, as the next one. r must name the
// newest version in If-Match, and who must have the right to make each change.
func (a *Answers) Change(w http.ResponseWriter, r *http.Request, who *callers.Caller, message string, text func(on history.Version) (string, error)) (err error) {
	if a.Store == nil {
		return a.errFile()
	}
	author := who.Name()
	if author == "" {
		author = "anyone"
	}
	var made history.Version
	defer func() {
		if err != nil {
			a.Log.Log(r.Context(), reply.Level(who, err), "a change of the limits was refused", "operator", author, "from", r.RemoteAddr, "message", message, "error", err)
		} else if made.Number > 0 {
			a.Log.Info("the limits were changed", "operator", author, "from", r.RemoteAddr, "version", made.Number, "message", message)
			a.Events.Add(events.Event{Kind: "limits-stored", Text: fmt.Sprintf("%s stored version %d: %s", author, made.Number, message)})
		}
	}()
	seen, err := basesOf(r)
	if err != nil {
		return err
	}
	dry, err := reply.Flag(r, "dry_run")
	if err != nil {
		return err
	}
	on, err := a.current(r)
	if err != nil {
		return err
	}
	fits := slices.IndexFunc(seen, func(c history.Change) bool { return c.Fits(on) })
	if fits < 0 {
		return &history.Conflict{Base: seen[0].Base, Newest: on.Number}
	}
	c := seen[fits]
	wanted, err := text(on)
	if err != nil {
		return err
	}
	s, err := Parse(a.Limits, wanted)
	if err != nil {
		return err
	}
	old, err := on.Parse()
	if err != nil {
		old = nil // the change may be the remedy
	}
	differs, err := mayChange(who, old, s)
	if err != nil {
		return err
	}
	done := outcomeOf(s, old, differs)
	if dry || on.Number > 0 && on.Text == wanted {
		return reply.JSON(w, http.StatusOK, done)
	}
	c.Seen, c.Text, c.Author, c.Message = on.Fingerprint, wanted, author, message
	if strings.TrimSpace(message) == "" {
		return reply.Refuse(http.StatusBadRequest, "say why, as in ?message=orders: 200/s for the sale")
	}
	if _, err := c.Version(time.Now()); err != nil {
		return reply.Refuse(http.StatusBadRequest, "%v", err)
	}
	if made, err = a.Store.Append(r.Context(), c); err != nil {
		return err
	}
	done.Version, done.Fingerprint = made.Number, made.Fingerprint
	w.Header().Set("ETag", a.shown(made).etag())
	return reply.JSON(w, http.StatusCreated, done)
}

// basesOf are changes of nothing yet, one for each version that r's author names as seen. Weak tags name
// the same versions: proxies that compress an answer make its tag weak.
func basesOf(r *http.Request) (seen []history.Change, err error) {
	fields := r.Header.Values("If-Match")
	if strings.Join(fields, "") == "" {
		return nil, reply.Refuse(http.StatusPreconditionRequired, `name the version that you have seen, as in If-Match: "7", which GET /v1/limits has in its ETag; "0" if there is none`)
	}
	for tag := range tags(fields) {
		quoted := strings.Trim(tag, `"`)
		name := strings.TrimSuffix(quoted, pending)
		number, fingerprint, _ := strings.Cut(name, "-")
		base, err := strconv.ParseInt(number, 10, 64)
		if err != nil || base < 0 || Tag(base, fingerprint) != name || tag != quoted && tag != strconv.Quote(quoted) {
			return nil, reply.Refuse(http.StatusBadRequest, `If-Match: %.100q is no version: write one, as in "7"`, fields)
		}
		seen = append(seen, history.Change{Base: base, Seen: fingerprint})
	}
	return seen, nil
}

// tags are the elements of the fields If-Match or If-None-Match of a request, weak ones without their W/.
func tags(fields []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for tag := range strings.SplitSeq(strings.Join(fields, ","), ",") {
			if !yield(strings.TrimPrefix(strings.TrimSpace(tag), "W/")) {
				return
			}
		}
	}
}

// mayChange returns what s changes in old, or an error if who may not make all of these changes. A nil old is one that cannot be parsed.
func mayChange(who *callers.Caller, old, s *dynamicconfig.Snapshot) ([]dynamicconfig.Change, error) {
	if old == nil {
		return nil, who.MayChange("*")
	}
	differs := dynamicconfig.Diff(old, s)
	if len(differs) == 0 {
		return nil, who.MayChange("*") // only comments and layout, of anything
	}
	ended := endedOverrides(old, s, time.Now())
	tidied := func(c dynamicconfig.Change) bool {
		return ended[c.Name] && c.Section == "overrides" && c.Kind == dynamicconfig.Removed
	}
	alone := !slices.ContainsFunc(differs, func(c dynamicconfig.Change) bool { return !tidied(c) })
	for _, c := range differs {
		if tidied(c) && !alone {
			continue
		}
		pattern := "*"
		if (c.Section == "limits" || c.Section == "overrides") && c.Name != "" {
			pattern = c.Name
		}
		if c.Section == "overrides" {
			pattern = overrides(pattern, old, s)
		}
		if err := who.MayChange(pattern); err != nil {
			return nil, err
		}
	}
	return differs, nil
}

// overrides is the pattern of the keys that an override of key changes: its own, or, where one key
// has the name of the bucket of a shared rule, all keys of that rule.
func overrides(key string, in ...*dynamicconfig.Snapshot) string {
	one, err := dynamicconfig.CompileGlob(key)
	if err != nil || (&dynamicconfig.Rule{Key: key}).IsGlob() {
		return key
	}
	for _, s := range in {
		for rule := range s.Each() {
			if rule.Shared && one.Match(rule.Key) {
				return rule.Key
			}
		}
	}
	return key
}

// endedOverrides names the keys of overrides that had ended in old, and are not in s; not if another one of the
// key that is not in s had not ended. Their removal changes no limit, and each override that is made removes
// those of others that have ended. So it needs no right beside another change.
func endedOverrides(old, s *dynamicconfig.Snapshot, now time.Time) map[string]bool {
	kept, ended := s.Overrides(), make(map[string]bool)
	for _, o := range old.OverrideStates(now) {
		same := func(k dynamicconfig.Override) bool { return k.Key == o.Key && k.Bypass == o.Bypass }
		if !slices.ContainsFunc(kept, same) {
			before, seen := ended[o.Key]
			ended[o.Key] = o.Ended && (before || !seen)
		}
	}
	return ended
}

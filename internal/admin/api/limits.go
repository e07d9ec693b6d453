// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// Version is a version of the limits.
type Version struct {
	Number  int64     `json:"version"` // 0: the limits are in a file
	Name    string    `json:"name,omitempty"`
	Author  string    `json:"author,omitempty"`
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time,omitzero"`

	// InForce: this daemon decides by it.
	InForce bool `json:"in_force"`

	// Fingerprint is history.Version's.
	Fingerprint string `json:"fingerprint,omitempty"`

	// Text is the whole config file; lists leave it out.
	Text string `json:"text,omitempty"`
}

// Change is one difference between two versions.
type Change struct {
	Kind    string `json:"kind"`    // added, removed, changed or reordered
	Section string `json:"section"` // limits, defaults, unmatched, overrides or properties
	Name    string `json:"name,omitempty"`
	Text    string `json:"text"` // all of it, for people
}

// Outcome is what a text changes, or has changed.
type Outcome struct {
	// Version is the one that was made; 0 if none was.
	Version int64 `json:"version,omitempty"`

	// Rules is how many the text has.
	Rules int `json:"rules"`

	// Changes are against the newest version.
	Changes []Change `json:"changes"`
}

// shown is v for an answer.
func (a *API) shown(v history.Version) Version {
	return Version{
		Number: v.Number, Author: v.Author, Message: v.Message, Time: v.Time, Fingerprint: v.Fingerprint, Text: v.Text,
		InForce: v.Fingerprint == a.Limits.Current().Version(),
	}
}

// etag is that of a version.
func etag(number int64) string { return strconv.Quote(strconv.FormatInt(number, 10)) }

// errFile: there is no store.
func (a *API) errFile() error {
	return refuse(http.StatusConflict, "the limits of this daemon are those of %s: change them there, or start it with --limits-db", a.Limits.Current().Name())
}

// current is the newest version with its text; of version 0 if there is none.
func (a *API) current(r *http.Request) (history.Version, error) {
	newest, err := a.Store.Newest(r.Context())
	if errors.Is(err, history.ErrEmpty) {
		return history.Version{Text: "limits: []"}, nil
	}
	if err != nil {
		return newest, err
	}
	return a.Store.Get(r.Context(), newest.Number)
}

// newest answers the newest version.
func (a *API) newest(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	if a.Store == nil {
		s := a.Limits.Current()
		return send(w, http.StatusOK, Version{Name: s.Name(), Time: a.Limits.Since(), InForce: true, Text: s.Text()})
	}
	v, err := a.current(r)
	if err != nil {
		return err
	}
	tag := etag(v.Number)
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return send(w, http.StatusOK, a.shown(v))
}

// check answers what a text would change.
func (a *API) check(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	text, err := body(w, r)
	if err != nil {
		return err
	}
	s, err := a.parse(text)
	if err != nil {
		return err
	}
	old := a.Limits.Current()
	if a.Store != nil {
		v, err := a.current(r)
		if err != nil {
			return err
		}
		if old, err = v.Parse(); err != nil {
			return refuse(http.StatusConflict, "%s cannot be used by this release: there is nothing to compare with", v.Name())
		}
	}
	return send(w, http.StatusOK, Outcome{Rules: len(s.Rules()), Changes: changes(dynamicconfig.Diff(old, s))})
}

// put makes a text the newest version.
func (a *API) put(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	text, err := body(w, r)
	if err != nil {
		return err
	}
	percent := 100.0
	if given := r.URL.Query().Get("enforce"); given != "" {
		if percent, err = strconv.ParseFloat(given, 64); err != nil || !(percent > 0 && percent <= 100) {
			return refuse(http.StatusBadRequest, "enforce=%.20q: write a percentage above 0, to 100", given)
		}
	}
	return a.change(w, r, who, r.URL.Query().Get("message"), func(on history.Version) (string, error) {
		if percent == 100 {
			return text, nil
		}
		from, err := on.Parse()
		if err != nil {
			return "", refuse(http.StatusConflict, "%s cannot be used by this release: there is nothing to take a step from", on.Name())
		}
		to, err := a.parse(text)
		if err != nil {
			return "", err
		}
		return edit.Enforce(from, to, percent)
	})
}

// rollback makes an earlier version the newest again.
func (a *API) rollback(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	to, err := number(r, "to")
	if err != nil {
		return err
	}
	if to == 0 {
		return refuse(http.StatusBadRequest, "say which version, as in ?to=7")
	}
	message := r.URL.Query().Get("message")
	if message == "" {
		message = fmt.Sprintf("roll back to version %d", to)
	}
	return a.change(w, r, who, message, func(history.Version) (string, error) {
		v, err := a.Store.Get(r.Context(), to)
		return v.Text, err
	})
}

// change stores text, which may be made of the newest version, as the next one. r must name the
// newest version in If-Match, and who must have the right to make each change.
func (a *API) change(w http.ResponseWriter, r *http.Request, who *callers.Caller, message string, text func(on history.Version) (string, error)) (err error) {
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
			a.Log.Warn("a change of the limits was refused", "operator", author, "from", r.RemoteAddr, "message", message, "error", err)
		} else if made.Number > 0 {
			a.Log.Info("the limits were changed", "operator", author, "from", r.RemoteAddr, "version", made.Number, "message", message)
			a.Events.Add(Event{Kind: "limits-stored", Text: fmt.Sprintf("%s stored version %d: %s", author, made.Number, message)})
		}
	}()
	base, err := baseOf(r)
	if err != nil {
		return err
	}
	on, err := a.current(r)
	if err != nil {
		return err
	}
	if on.Number != base {
		return &history.Conflict{Base: base, Newest: on.Number}
	}
	wanted, err := text(on)
	if err != nil {
		return err
	}
	s, err := a.parse(wanted)
	if err != nil {
		return err
	}
	differs, err := mayChange(who, on, s)
	if err != nil {
		return err
	}
	done := Outcome{Rules: len(s.Rules()), Changes: changes(differs)}
	if r.URL.Query().Has("dry_run") || on.Number > 0 && on.Text == wanted {
		return send(w, http.StatusOK, done)
	}
	c := history.Change{Base: base, Text: wanted, Author: author, Message: message}
	if message == "" {
		return refuse(http.StatusBadRequest, "say why, as in ?message=orders: 200/s for the sale")
	}
	if _, err := c.Version(time.Now()); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	if made, err = a.Store.Append(r.Context(), c); err != nil {
		return err
	}
	done.Version = made.Number
	w.Header().Set("ETag", etag(made.Number))
	return send(w, http.StatusCreated, done)
}

// baseOf is the version that r's author has seen.
func baseOf(r *http.Request) (int64, error) {
	field := r.Header.Get("If-Match")
	if field == "" {
		return 0, refuse(http.StatusPreconditionRequired, `name the version that you have seen, as in If-Match: "7", which GET /v1/limits has in its ETag; "0" if there is none`)
	}
	n, err := strconv.ParseInt(strings.Trim(field, `"`), 10, 64)
	if err != nil || n < 0 {
		return 0, refuse(http.StatusBadRequest, `If-Match: %.40q is no version: write it as in "7"`, field)
	}
	return n, nil
}

// mayChange is what s changes in a version, if who may do all of it.
func mayChange(who *callers.Caller, on history.Version, s *dynamicconfig.Snapshot) ([]dynamicconfig.Change, error) {
	old, err := on.Parse()
	if err != nil { // the change may be the remedy
		return nil, who.MayChange("*")
	}
	differs := dynamicconfig.Diff(old, s)
	if len(differs) == 0 {
		return nil, who.MayChange("*") // only comments and layout, of anything
	}
	tidied := endedOverrides(old, differs, time.Now())
	for _, c := range differs {
		if tidied[c.Name] && c.Section == "overrides" && len(differs) > len(tidied) {
			continue
		}
		pattern := "*"
		if (c.Section == "limits" || c.Section == "overrides") && c.Name != "" {
			pattern = c.Name
		}
		if err := who.MayChange(pattern); err != nil {
			return nil, err
		}
	}
	return differs, nil
}

// endedOverrides names the overrides that had ended in old, and that differs removes. That
// changes no limit, and each override that is made removes those of others that have ended. So
// it needs no right beside another change.
func endedOverrides(old *dynamicconfig.Snapshot, differs []dynamicconfig.Change, now time.Time) map[string]bool {
	ended := make(map[string]bool)
	for _, o := range old.OverrideStates(now) {
		same := func(c dynamicconfig.Change) bool {
			return c.Section == "overrides" && c.Kind == dynamicconfig.Removed && c.Name == o.Key
		}
		if o.Ended && slices.ContainsFunc(differs, same) {
			ended[o.Key] = true
		}
	}
	return ended
}

// parse is text as limits that this daemon can use.
func (a *API) parse(text string) (*dynamicconfig.Snapshot, error) {
	s, err := dynamicconfig.ParseChecked("limits", []byte(text), a.Limits.Check)
	if err != nil {
		return nil, broken(err)
	}
	return s, nil
}

// body is the text of limits in r.
func body(w http.ResponseWriter, r *http.Request) (string, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, dynamicconfig.MaxLargeSize))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return "", refuse(http.StatusRequestEntityTooLarge, "limits have at most %d bytes", dynamicconfig.MaxLargeSize)
	}
	if err != nil {
		return "", refuse(http.StatusBadRequest, "the body did not arrive: %v", err)
	}
	return string(text), nil
}

func changes(all []dynamicconfig.Change) []Change {
	shown := make([]Change, len(all))
	for i, c := range all {
		shown[i] = Change{Kind: c.Kind.String(), Section: c.Section, Name: c.Name, Text: c.String()}
	}
	return shown
}

// history answers the versions, the newest first.
func (a *API) history(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	if a.Store == nil {
		return a.errFile()
	}
	n, err := page(r, 50, 1000)
	if err != nil {
		return err
	}
	before, err := number(r, "before")
	if err != nil {
		return err
	}
	found, err := a.Store.List(r.Context(), before, n)
	if err != nil {
		return err
	}
	versions := make([]Version, len(found))
	for i, v := range found {
		versions[i] = a.shown(v)
	}
	return send(w, http.StatusOK, map[string]any{"versions": versions})
}

// version answers one version, and what it changed.
func (a *API) version(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	if a.Store == nil {
		return a.errFile()
	}
	n, err := strconv.ParseInt(r.PathValue("version"), 10, 64)
	if err != nil || n < 1 {
		return refuse(http.StatusBadRequest, "%.20q is no version: write its number, as in 7", r.PathValue("version"))
	}
	v, err := a.Store.Get(r.Context(), n)
	if err != nil {
		return err
	}
	whole := struct {
		Version

		Changes []Change `json:"changes"`
	}{a.shown(v), []Change{}}
	before := history.Version{Text: "limits: []"}
	if n > 1 {
		before, err = a.Store.Get(r.Context(), n-1)
	}
	if err == nil { // else it was pruned
		old, errOld := before.Parse()
		s, errNew := v.Parse()
		if errOld == nil && errNew == nil {
			whole.Changes = changes(dynamicconfig.Diff(old, s))
		}
	}
	return send(w, http.StatusOK, whole)
}

// rules answers the rules in force.
func (a *API) rules(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := page(r, 100, 1000)
	if err != nil {
		return err
	}
	like, after := r.URL.Query().Get("like"), r.URL.Query().Get("after")
	all, begun := []map[string]any{}, after == ""
	rules := a.Limits.Current().Rules()
	for i := range rules {
		rule := &rules[i]
		if !begun {
			begun = rule.Key == after
			continue
		}
		if who.MaySee(rule.Key) && strings.Contains(rule.Key, like) {
			if len(all) == n {
				break
			}
			all = append(all, maps.Collect(rule.Fields()))
		}
	}
	if !begun {
		return refuse(http.StatusNotFound, "after=%.100q: there is no such rule any more: begin again", after)
	}
	return send(w, http.StatusOK, map[string]any{"rules": all, "in_force": a.Limits.Current().Version()})
}

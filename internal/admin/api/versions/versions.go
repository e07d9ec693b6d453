// SPDX-License-Identifier: Apache-2.0

// Package versions answers what the limits are and were, and makes new versions of them. It
// does not know what is used of them.
package versions

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
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

	// Text is the whole config file; lists leave it out, and so do answers to who wants no text so
	// large: then Size is how many bytes it has.
	Text string `json:"text,omitempty"`
	Size int    `json:"size,omitempty"`

	// Damaged is history.Version's.
	Damaged bool `json:"damaged,omitempty"`
}

// Change is one difference between two versions.
type Change struct {
	Kind    string `json:"kind"`    // added, removed, changed or reordered
	Section string `json:"section"` // limits, defaults, unmatched, overrides or properties
	Name    string `json:"name,omitempty"`
	Text    string `json:"text"` // all of it, for people
}

// Whole is a version with the changes that it made.
type Whole struct {
	Version

	Changes []Change `json:"changes"`
	More    int      `json:"more,omitempty"` // changes that were not wanted
}

// Outcome is what a text changes, or has changed.
type Outcome struct {
	// Version is the one that was made, and Fingerprint is history.Version's; 0 and empty if
	// none was.
	Version     int64  `json:"version,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`

	// Rules is how many the text has.
	Rules int `json:"rules"`

	// Changes are against the newest version.
	Changes []Change `json:"changes"`

	// Warnings are likely mistakes that the newest version does not have, at most 100.
	Warnings []reply.Mistake `json:"warnings,omitempty"`
}

// outcomeOf tells what s changes in old. A nil old is one that cannot be parsed.
func outcomeOf(s, old *dynamicconfig.Snapshot, changes []dynamicconfig.Change) Outcome {
	return Outcome{Rules: CountRules(s), Changes: Changes(changes), Warnings: reply.Warnings(dynamicconfig.NewWarnings(old, s))}
}

// CountRules is how many rules s has, without a copy of them.
func CountRules(s *dynamicconfig.Snapshot) (n int) {
	for range s.Each() {
		n++
	}
	return n
}

// Tag names the version that was made in If-Match.
func (o Outcome) Tag() string { return Tag(o.Version, o.Fingerprint) }

// Answers are those about versions. It is safe for concurrent use.
type Answers struct {
	// Limits are those in force.
	Limits *dynamicconfig.Live

	// Store has their versions; nil if they are in a file.
	Store history.Store

	// Events and Log get each change, and Log each refused one.
	Events *events.Feed
	Log    *slog.Logger
}

// Routes are what a answers.
func (a *Answers) Routes() map[string]reply.Handler {
	return map[string]reply.Handler{
		"GET /v1/limits":                   a.newest,
		"PUT /v1/limits":                   a.put,
		"POST /v1/limits/check":            a.check,
		"POST /v1/limits/rollback":         a.rollback,
		"GET /v1/limits/history":           a.history,
		"GET /v1/limits/history/{version}": a.version,
		"GET /v1/limits/rules":             a.rules,
		"GET /v1/limits/overrides":         a.overrides,
		"PUT /v1/limits/override":          a.putOverride,
		"DELETE /v1/limits/override":       a.deleteOverride,
		"PUT /v1/limits/rule":              a.putRule,
		"DELETE /v1/limits/rule":           a.deleteRule,
	}
}

// shown is v for an answer.
func (a *Answers) shown(v history.Version) Version {
	return Version{
		Number: v.Number, Author: v.Author, Message: v.Message, Time: v.Time, Fingerprint: v.Fingerprint, Text: v.Text, Damaged: v.Damaged,
		InForce: v.Fingerprint == a.Limits.Current().Version(),
	}
}

// Tag names version number, which has fingerprint, in If-Match: a database that was replaced has
// other versions with the numbers of old ones. An empty fingerprint is not known.
func Tag(number int64, fingerprint string) string {
	tag := strconv.FormatInt(number, 10)
	if fingerprint != "" {
		tag += "-" + fingerprint
	}
	return tag
}

// within leaves out a text that has more bytes than the query of r wants.
func (v Version) within(r *http.Request) (Version, error) {
	most, err := reply.Most(r, "text")
	if len(v.Text) > most {
		v.Text, v.Size = "", len(v.Text)
	}
	return v, err
}

// Tag names v in If-Match.
func (v Version) Tag() string { return Tag(v.Number, v.Fingerprint) }

// etag is that of an answer with v: it changes when v comes into force, or others do.
func (v Version) etag() string {
	tag := v.Tag()
	if !v.InForce {
		tag += pending
	}
	return strconv.Quote(tag)
}

// pending ends the ETag of a version that is not in force. In If-Match it means nothing.
const pending = "-pending"

// errFile: there is no store.
func (a *Answers) errFile() error {
	return reply.Refuse(http.StatusConflict, "the limits of this daemon are those of %s: change them there, or start it with --limits-db", a.Limits.Current().Name())
}

// current is the newest version with its text; of version 0 if there is none.
func (a *Answers) current(r *http.Request) (history.Version, error) {
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
func (a *Answers) newest(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	if a.Store == nil {
		s := a.Limits.Current()
		v, err := Version{Name: s.Name(), Time: a.Limits.Since(), InForce: true, Text: s.Text()}.within(r)
		if err != nil {
			return err
		}
		return reply.JSON(w, http.StatusOK, v)
	}
	found, err := a.current(r)
	if err != nil {
		return err
	}
	v, err := a.shown(found).within(r)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", v.etag())
	for tag := range tags(r.Header.Values("If-None-Match")) {
		if tag == v.etag() || tag == "*" {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return reply.JSON(w, http.StatusOK, v)
}

// check answers what a text would change.
func (a *Answers) check(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	text, err := Body(w, r)
	if err != nil {
		return err
	}
	s, err := Parse(a.Limits, text)
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
			return reply.Refuse(http.StatusConflict, "%s cannot be used: there is nothing to compare with", v.Name())
		}
	}
	return reply.JSON(w, http.StatusOK, outcomeOf(s, old, dynamicconfig.Diff(old, s)))
}

// Parse is text as limits that this daemon, whose limits are in force, can use.
func Parse(limits *dynamicconfig.Live, text string) (*dynamicconfig.Snapshot, error) {
	s, err := dynamicconfig.ParseChecked("limits", []byte(text), limits.Check)
	if err != nil {
		return nil, reply.Broken(err)
	}
	return s, nil
}

// Body is the text of limits in r.
func Body(w http.ResponseWriter, r *http.Request) (string, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, dynamicconfig.MaxLargeSize))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return "", reply.Refuse(http.StatusRequestEntityTooLarge, "limits have at most %d bytes", dynamicconfig.MaxLargeSize)
	}
	if err != nil {
		return "", reply.Refuse(http.StatusBadRequest, "the body did not arrive: %v", err)
	}
	return string(text), nil
}

// Changes are all, as they are shown.
func Changes(all []dynamicconfig.Change) []Change {
	shown := make([]Change, len(all))
	for i, c := range all {
		shown[i] = Change{Kind: c.Kind.String(), Section: c.Section, Name: c.Name, Text: c.String()}
	}
	return shown
}

// history answers the versions, the newest first.
func (a *Answers) history(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	if a.Store == nil {
		return a.errFile()
	}
	n, err := reply.Page(r, 50, 1000)
	if err != nil {
		return err
	}
	before, err := reply.Number(r, "before")
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
	return reply.JSON(w, http.StatusOK, map[string]any{"versions": versions})
}

// version answers one version, and what it changed.
func (a *Answers) version(w http.ResponseWriter, r *http.Request, _ *callers.Caller) error {
	if a.Store == nil {
		return a.errFile()
	}
	n, err := strconv.ParseInt(r.PathValue("version"), 10, 64)
	if err != nil || n < 1 {
		return reply.Refuse(http.StatusBadRequest, "%.20q is no version: write its number, as in 7", r.PathValue("version"))
	}
	v, err := a.Store.Get(r.Context(), n)
	if err != nil {
		return err
	}
	shown, err := a.shown(v).within(r)
	if err != nil {
		return err
	}
	most, err := reply.Most(r, "changes")
	if err != nil {
		return err
	}
	whole := Whole{Version: shown, Changes: []Change{}}
	before := history.Version{Text: "limits: []"}
	if n > 1 {
		before, err = a.Store.Get(r.Context(), n-1)
	}
	if err == nil { // else it was pruned
		changes, more, err := history.Changes(before, v, most)
		if err == nil { // else this release cannot read one of the texts
			first := min(len(changes), most)
			whole.Changes, whole.More = Changes(changes[:first]), more+len(changes)-first
		}
	}
	return reply.JSON(w, http.StatusOK, whole)
}

// rules answers the rules in force.
func (a *Answers) rules(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := reply.Page(r, 100, 1000)
	if err != nil {
		return err
	}
	like, after := r.URL.Query().Get("like"), r.URL.Query().Get("after")
	all, begun := []map[string]any{}, after == ""
	for rule := range a.Limits.Current().Each() {
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
		return reply.Refuse(http.StatusNotFound, "after=%.100q: there is no such rule any more: begin again", after)
	}
	return reply.JSON(w, http.StatusOK, map[string]any{"rules": all, "in_force": a.Limits.Current().Version()})
}

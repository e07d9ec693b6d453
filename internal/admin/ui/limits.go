// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// maxText is the largest text that a page shows without being asked for it, in bytes: some 6,000 rules.
const maxText = 256 << 10

// maxChanges is how many changes a page shows.
const maxChanges = 500

// wanted is a query for what the page that r asks for has room for.
func wanted(r *http.Request) string {
	if r.URL.Query().Has("text") {
		return ""
	}
	return "text=" + strconv.Itoa(maxText)
}

// ruleList is a list of the rules in force, and how it was asked for.
type ruleList struct {
	Rules []struct {
		Key       string            `json:"key"`
		Limit     string            `json:"limit"`
		Burst     float64           `json:"burst"`
		Algorithm string            `json:"algorithm"`
		Migrate   map[string]string `json:"migrate"`
		Override  string            `json:"override"`
	} `json:"rules"`

	Like, Next string `json:"-"`
}

// ask asks for the page of rules that r is about.
func (l *ruleList) ask(u *UI, r *http.Request) error {
	const n = 100
	q := r.URL.Query()
	l.Like = q.Get("like")
	query := url.Values{"like": {l.Like}, "after": {q.Get("after")}, "n": {strconv.Itoa(n)}}
	err := u.ask(r, http.MethodGet, "/v1/limits/rules?"+query.Encode(), "", l)
	if len(l.Rules) == n {
		l.Next = l.Rules[n-1].Key
	}
	return err
}

// limits shows the editor and the history. Where the text is large, there is a list of rules instead of the editor.
func (u *UI) limits(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("HX-Request") != "" {
		var list ruleList
		if err := list.ask(u, r); err != nil {
			return err
		}
		return u.part(w, http.StatusOK, "rules-part", list)
	}
	var p struct {
		Version          versions.Version
		Stored, Editable bool
		Large            bool
		Rules            ruleList
		History          []versions.Version
		Holds            overrideList
	}
	if err := u.ask(r, http.MethodGet, "/v1/limits?"+wanted(r), "", &p.Version); err != nil {
		return err
	}
	var who api.Me
	if err := u.ask(r, http.MethodGet, "/v1/me", "", &who); err != nil {
		return err
	}
	if p.Large = p.Version.Size > 0; p.Large {
		if err := p.Rules.ask(u, r); err != nil {
			return err
		}
	}
	if err := p.Holds.ask(u, r); err != nil {
		return err
	}
	p.Stored = p.Version.Name == ""
	p.Editable = p.Stored && who.Changes
	if p.Stored {
		var page struct {
			Versions []versions.Version `json:"versions"`
		}
		if err := u.ask(r, http.MethodGet, "/v1/limits/history?n=50", "", &page); err != nil {
			return err
		}
		p.History = page.Versions
	}
	return u.show(w, r, "Limits", "limits", "", p)
}

// version shows one version.
func (u *UI) version(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		Version  versions.Whole
		Newest   versions.Version
		Before   int64
		Editable bool
		Large    bool
	}
	number, err := strconv.ParseInt(r.URL.Query().Get("version"), 10, 64)
	if err != nil {
		return errNoPage
	}
	if err := u.ask(r, http.MethodGet, fmt.Sprintf("/v1/limits/history/%d?changes=%d&%s", number, maxChanges, wanted(r)), "", &p.Version); err != nil {
		return err
	}
	if err := u.ask(r, http.MethodGet, "/v1/limits?text=0", "", &p.Newest); err != nil {
		return err
	}
	var who api.Me
	if err := u.ask(r, http.MethodGet, "/v1/me", "", &who); err != nil {
		return err
	}
	p.Before, p.Editable, p.Large = number-1, who.Changes, p.Version.Size > 0
	return u.show(w, r, fmt.Sprintf("Version %d", number), "version", "", p)
}

// check says what is wrong with a text, or what it changes.
func (u *UI) check(w http.ResponseWriter, r *http.Request) error {
	var out versions.Outcome
	if err := u.ask(r, http.MethodPost, "/v1/limits/check", text(r), &out); err != nil {
		return err
	}
	return u.part(w, http.StatusOK, "checked", out)
}

// review shows what a change would do, and asks whether it is to be made.
func (u *UI) review(w http.ResponseWriter, r *http.Request) error {
	out, err := u.put(r, true)
	if err != nil {
		return err
	}
	number, _, _ := strings.Cut(r.PostFormValue("base"), "-") // before the fingerprint
	base, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	var dry lasthour.DryRun
	if err := u.ask(r, http.MethodPost, "/v1/limits/dry-run", text(r), &dry); err != nil {
		return err
	}
	return u.part(w, http.StatusOK, "review", map[string]any{"Outcome": out, "Dry": dry, "Next": base + 1})
}

// apply makes a change.
func (u *UI) apply(w http.ResponseWriter, r *http.Request) error {
	out, err := u.put(r, false)
	switch {
	case err != nil:
		return err
	case out.Version == 0:
		return u.part(w, http.StatusOK, "unchanged", nil)
	}
	if percent := r.PostFormValue("enforce"); percent != "100" {
		return u.part(w, http.StatusOK, "step", map[string]any{"Outcome": out, "Percent": percent})
	}
	return u.part(w, http.StatusOK, "applied", out)
}

// put sends the text of a form to the API.
func (u *UI) put(r *http.Request, dry bool) (out versions.Outcome, err error) {
	query := url.Values{"message": {r.PostFormValue("message")}, "enforce": {r.PostFormValue("enforce")}}
	if dry {
		query.Set("dry_run", "")
	}
	err = u.ask(r, http.MethodPut, "/v1/limits?"+query.Encode(), text(r), &out, "If-Match", strconv.Quote(r.PostFormValue("base")))
	return out, late(r, err, "Your text is still here: copy it, open the limits anew, and make your change again on top of theirs.")
}

// late adds to err, if it says that another operator was faster than who sent r, what to do about it.
func late(r *http.Request, err error, then string) error {
	base, _, _ := strings.Cut(r.PostFormValue("base"), "-")
	p, ok := errors.AsType[*reply.Problem](err)
	if ok && p.Status == http.StatusPreconditionFailed && base != strconv.FormatInt(p.Newest, 10) { // else the database was replaced
		p.Detail = fmt.Sprintf("Another operator stored version %d while you were at it, and nothing was changed. %s", p.Newest, then)
	}
	return err
}

// rollback shows what going back would change, and then goes back.
func (u *UI) rollback(w http.ResponseWriter, r *http.Request) error {
	to, base := r.PostFormValue("to"), r.PostFormValue("base")
	query := url.Values{"to": {to}}
	sure := r.PostFormValue("sure") == "yes"
	if !sure {
		query.Set("dry_run", "")
	}
	var out versions.Outcome
	if err := u.ask(r, http.MethodPost, "/v1/limits/rollback?"+query.Encode(), "", &out, "If-Match", strconv.Quote(base)); err != nil {
		return late(r, err, "Open the limits anew to see what it was, and go back from there.")
	}
	switch {
	case !sure:
		return u.part(w, http.StatusOK, "confirm", map[string]any{"Outcome": out, "To": to, "Base": base})
	case out.Version == 0:
		return u.part(w, http.StatusOK, "unchanged", nil)
	}
	return u.part(w, http.StatusOK, "applied", out)
}

// text is that of a form's editor, with the line ends that limits have.
func text(r *http.Request) string { return strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n") }

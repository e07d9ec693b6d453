// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// overrideList is what holds for a time.
type overrideList struct {
	Overrides []versions.Override `json:"overrides"`
}

// ask asks for the overrides.
func (l *overrideList) ask(u *UI, r *http.Request) error {
	return u.ask(r, http.MethodGet, "/v1/limits/overrides", "", l)
}

// holding are the overrides that change something now.
func (l *overrideList) holding() (holding []versions.Override) {
	for _, o := range l.Overrides {
		if !o.Ended && o.Because == "" {
			holding = append(holding, o)
		}
	}
	return holding
}

// Count is how many overrides change something now.
func (l *overrideList) Count() int { return len(l.holding()) }

// Everything is what is in force for all rules; nil if nothing is.
func (l *overrideList) Everything() (found *versions.Override) {
	for _, o := range l.holding() {
		if o.All {
			found = &o
		}
	}
	return found
}

// stillLimited are the keys and rules that a bypass of all rules leaves limited: those with an override
// of their own.
func (l *overrideList) stillLimited() (own []string) {
	bypassed := make(map[string]bool)
	for _, o := range l.Overrides {
		bypassed[o.Key] = bypassed[o.Key] || o.Limit == rule.Bypass && !o.Ended
	}
	for _, o := range l.holding() {
		if !o.All && !bypassed[o.Key] {
			own = append(own, o.Key)
		}
	}
	return own
}

// override shows what an override would change, and then makes it, or ends one.
func (u *UI) override(w http.ResponseWriter, r *http.Request) error {
	form := make(map[string]string)
	for _, name := range []string{"key", "all", "limit", "for", "message", "base"} {
		form[name] = r.PostFormValue(name)
	}
	query := url.Values{"message": {form["message"]}}
	if form["all"] != "" {
		query.Set("all", "true")
	} else {
		query.Set("key", form["key"])
	}
	method, sure := http.MethodPut, r.PostFormValue("sure") == "yes"
	if r.PostFormValue("end") != "" {
		method, sure = http.MethodDelete, true
		query.Set("bypass", strconv.FormatBool(form["limit"] == rule.Bypass))
	} else {
		query.Set("limit", form["limit"])
		query.Set("for", form["for"])
	}
	if !sure {
		query.Set("dry_run", "")
		var newest versions.Version
		if err := u.ask(r, http.MethodGet, "/v1/limits?text=0", "", &newest); err != nil {
			return err
		}
		form["base"] = newest.Tag()
	}
	var out versions.Outcome
	if err := u.ask(r, method, "/v1/limits/override?"+query.Encode(), "", &out, "If-Match", strconv.Quote(form["base"])); err != nil {
		return late(r, err, "Open the page anew to see what holds, and make the override again.")
	}
	if sure {
		return u.part(w, http.StatusOK, "applied", out)
	}
	var all overrideList
	if err := all.ask(u, r); err != nil {
		return err
	}
	p := struct {
		Outcome      versions.Outcome
		Form         map[string]string
		Everything   bool // is let through
		StillLimited []string
	}{out, form, form["all"] != "" && form["limit"] == rule.Bypass, all.stillLimited()}
	return u.part(w, http.StatusOK, "override-confirm", p)
}

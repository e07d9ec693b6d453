// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/api/migrate"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// migrations shows the rules that change their algorithm.
func (u *UI) migrations(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		migrate.Report

		Base     string `json:"-"` // the tag of the newest version
		Editable bool   `json:"-"`
	}
	if err := u.ask(r, http.MethodGet, "/v1/migrations", "", &p); err != nil {
		return err
	}
	var newest versions.Version
	if err := u.ask(r, http.MethodGet, "/v1/limits?text=0", "", &newest); err != nil {
		return err
	}
	var who api.Me
	if err := u.ask(r, http.MethodGet, "/v1/me", "", &who); err != nil {
		return err
	}
	p.Base, p.Editable = newest.Tag(), who.Changes && newest.Name == ""
	return u.show(w, r, "Migrations", "migrations", "migrations-part", p)
}

// step takes a rule to another mode.
func (u *UI) step(w http.ResponseWriter, r *http.Request) error {
	query := url.Values{"rule": {r.PostFormValue("rule")}, "mode": {r.PostFormValue("mode")}}
	var out versions.Outcome
	if err := u.ask(r, http.MethodPost, "/v1/migrations/step?"+query.Encode(), "", &out, "If-Match", strconv.Quote(r.PostFormValue("base"))); err != nil {
		return late(r, err, "Choose the step again: this page has their version now.")
	}
	return u.part(w, http.StatusOK, "applied", out)
}

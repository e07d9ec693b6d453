// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/headgate/headgate/internal/admin/api"
)

// askToken shows the page that asks for a token, with what was wrong with the last one.
func (u *UI) askToken(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	data := map[string]string{"Error": wrong, "Next": next(r.FormValue("next"))}
	if err := u.frame(w, status, "Log in", "", nil, "login", data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// next is where a browser goes after the login: a page of this daemon.
func next(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return "/"
	}
	return path
}

// login has the browser keep a token.
func (u *UI) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	asked, err := json.Marshal(map[string]string{"token": strings.TrimSpace(r.PostFormValue("token"))})
	if err != nil {
		u.fail(w, r, err)
		return
	}
	a, err := u.send(r, http.MethodPost, "/v1/login", string(asked))
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if a.status != http.StatusOK {
		var p api.Problem
		_ = json.Unmarshal(a.body.Bytes(), &p) // else there is no detail
		u.askToken(w, r, a.status, p.Detail)
		return
	}
	w.Header()["Set-Cookie"] = a.header["Set-Cookie"]
	http.Redirect(w, r, next(r.PostFormValue("next")), http.StatusSeeOther)
}

// logout has the browser forget it.
func (u *UI) logout(w http.ResponseWriter, r *http.Request) {
	a, err := u.send(r, http.MethodPost, "/v1/logout", "")
	if err != nil {
		u.fail(w, r, err)
		return
	}
	w.Header()["Set-Cookie"] = a.header["Set-Cookie"]
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

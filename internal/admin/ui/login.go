// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/internal/admin/api/reply"
)

// askToken shows the page that asks for a token, with what was wrong with the last one, and
// where the browser wants to go after the login.
func (u *UI) askToken(w http.ResponseWriter, status int, wrong, to string) {
	data := map[string]string{"Error": wrong, "Next": next(to)}
	if err := u.frame(w, status, "Log in", "", nil, "login", data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// next is where a browser goes after the login: a page of this daemon. Browsers leave control
// characters out, so that "/\t/host" is another site; url.Parse refuses them.
func next(path string) string {
	if _, err := url.Parse(path); err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return "/"
	}
	return path
}

// login has the browser keep a token.
func (u *UI) login(w http.ResponseWriter, r *http.Request) {
	if err := read(w, r, maxLogin); err != nil {
		u.fail(w, r, err)
		return
	}
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
	if a.Status != http.StatusOK {
		var p reply.Problem
		_ = json.Unmarshal(a.Body, &p) // else there is no detail
		u.askToken(w, a.Status, p.Detail, r.PostFormValue("next"))
		return
	}
	w.Header()["Set-Cookie"] = a.Header()["Set-Cookie"]
	http.Redirect(w, r, next(r.PostFormValue("next")), http.StatusSeeOther)
}

// logout has the browser forget it.
func (u *UI) logout(w http.ResponseWriter, r *http.Request) {
	a, err := u.send(r, http.MethodPost, "/v1/logout", "")
	if err != nil {
		u.fail(w, r, err)
		return
	}
	w.Header()["Set-Cookie"] = a.Header()["Set-Cookie"]
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

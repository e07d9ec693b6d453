// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"errors"
	"net/http"

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/api/large"
	"github.com/headgate/headgate/internal/admin/api/reply"
)

// Bounds of what a page sends, in bytes.
const (
	maxForm  = 10 << 20 // with a text of limits
	maxLogin = 64 << 10
)

// answer reads the form that r sends, if it sends one, and answers with f. Nothing of a form is
// read before the API knows who sends it: strangers must not fill the daemon's memory, or its
// disk. One large form is answered at a time.
func (u *UI) answer(w http.ResponseWriter, r *http.Request, f page) error {
	if r.Method != http.MethodPost {
		return f(w, r)
	}
	var who api.Me
	if err := u.ask(r, http.MethodGet, "/v1/me", "", &who); err != nil {
		return err
	}
	done, err := u.turn.Wait(w, r, false)
	if err != nil {
		return err
	}
	made := large.NewAnswer(w.Header())
	err = read(w, r, maxForm)
	if err == nil {
		err = f(made, r)
	}
	done()
	if err != nil {
		return err
	}
	return u.room.Send(w, made)
}

// read reads the form that r sends, of most bytes. It reads no files: the standard library
// would keep them on the disk. Handlers find the fields with PostFormValue.
func read(w http.ResponseWriter, r *http.Request, most int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	err := r.ParseForm()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &reply.Problem{
			Title: "That is too much", Status: http.StatusRequestEntityTooLarge,
			Detail: "A page sends at most 10 MiB: use headgate limits apply for a larger text.",
		}
	}
	if err != nil {
		return &reply.Problem{Title: "The form cannot be read", Status: http.StatusBadRequest, Detail: err.Error()}
	}
	return nil
}

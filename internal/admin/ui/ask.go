// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/internal/admin/api/large"
	"github.com/headgate/headgate/internal/admin/api/reply"
)

// send asks the API as who sent r. fields are those of the header, by turns name and value.
func (u *UI) send(r *http.Request, method, path, body string, fields ...string) (*large.Answer, error) {
	target, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	to := r.Clone(r.Context()) // with what shows who it is, and what page sent it
	to.Method, to.URL, to.RequestURI = method, target, path
	to.Body, to.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	to.Form, to.PostForm, to.MultipartForm = nil, nil, nil
	to.Pattern = ""
	for i := 0; i < len(fields); i += 2 {
		to.Header.Set(fields[i], fields[i+1])
	}
	a := large.NewAnswer(make(http.Header))
	u.api.ServeHTTP(a, to)
	return a, nil
}

// ask asks the API as who sent r, and puts the answer into v, a pointer. The error is an
// *reply.Problem.
func (u *UI) ask(r *http.Request, method, path, body string, v any, fields ...string) error {
	a, err := u.send(r, method, path, body, fields...)
	if err != nil {
		return err
	}
	if a.Status >= 300 {
		p := new(reply.Problem)
		if err := json.Unmarshal(a.Body, p); err != nil {
			return errors.New("the API answers " + http.StatusText(a.Status))
		}
		return p
	}
	return json.Unmarshal(a.Body, v)
}

// problemOf is err as a Problem.
func problemOf(err error) *reply.Problem {
	if p, ok := errors.AsType[*reply.Problem](err); ok {
		return p
	}
	if errors.Is(err, large.ErrFull) {
		return reply.Refuse(http.StatusServiceUnavailable, "%v", err)
	}
	return &reply.Problem{Title: "Something is wrong here", Status: http.StatusInternalServerError, Detail: err.Error()}
}

// errNoPage is the error of a path with no page.
var errNoPage = &reply.Problem{Title: "There is no such page", Status: http.StatusNotFound, Detail: "The pages are in the line at the top."}

// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// Problem is why a request was not done, as RFC 9457 has it.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	// Mistakes are those in a text of limits.
	Mistakes []Mistake `json:"mistakes,omitempty"`

	// Newest is the newest version, where a change is based on another one.
	Newest int64 `json:"newest,omitempty"`
}

// Mistake is one mistake in a text of limits.
type Mistake struct {
	Line    int    `json:"line,omitempty"`   // from 1; 0: the whole text
	Column  int    `json:"column,omitempty"` // in characters, from 1
	Source  string `json:"source,omitempty"` // the line; empty if it is longer than maxSource
	Message string `json:"message"`
}

// maxSource bounds the line of a mistake, in bytes: a text may be one line with many mistakes.
const maxSource = 1000

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Refuse is the Problem with this status; format and args say what to do.
func Refuse(status int, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// problemOf is err as a Problem.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if c, ok := errors.AsType[*history.Conflict](err); ok {
		p := Refuse(http.StatusPreconditionFailed, "%v", c)
		p.Newest = c.Newest
		return p
	}
	switch {
	case errors.Is(err, callers.ErrForbidden):
		return Refuse(http.StatusForbidden, "%v", err)
	case errors.Is(err, history.ErrEmpty), errors.Is(err, history.ErrNoVersion):
		return Refuse(http.StatusNotFound, "%v", err)
	}
	return Refuse(http.StatusServiceUnavailable, "%v", err)
}

// Level is the level at which a log has that what who asked for was refused because of err. The log has
// each refusal to an operator with a name, and a daemon withholds warnings of one cause when there are many.
func Level(who *callers.Caller, err error) slog.Level {
	if who.Name() != "" && problemOf(err).Status < http.StatusInternalServerError {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// Broken is the Problem of a text of limits that cannot be used because of err.
func Broken(err error) *Problem {
	p := Refuse(http.StatusUnprocessableEntity, "the limits have mistakes, and nothing was changed")
	p.Mistakes = mistakes(err)
	return p
}

// mistakes are those that err joins.
func mistakes(err error) (all []Mistake) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, mistakes(e)...)
		}
		return all
	}
	if e, ok := errors.AsType[*dynamicconfig.Error](err); ok {
		return []Mistake{mistakeOf(e)}
	}
	return []Mistake{{Message: err.Error()}}
}

func mistakeOf(e *dynamicconfig.Error) Mistake {
	m := Mistake{Line: e.Line, Column: e.Column, Message: e.Message}
	if len(e.Source) <= maxSource {
		m.Source = e.Source
	}
	return m
}

// maxWarnings bounds the likely mistakes in an answer.
const maxWarnings = 100

// Warnings are the first 100 of all.
func Warnings(all []*dynamicconfig.Error) (likely []Mistake) {
	for _, e := range all[:min(len(all), maxWarnings)] {
		likely = append(likely, mistakeOf(e))
	}
	return likely
}

// Fail answers that a request was not done because of err. It answers also when the context of
// the request has ended: one that is too slow to arrive ends its context, and its sender reads the
// answer.
func Fail(w http.ResponseWriter, err error) {
	p := problemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	text, err := json.Marshal(p)
	if err != nil { // no field can fail
		text = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n'))
}

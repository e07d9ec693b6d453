// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// Override changes a limit for a time, and ends by itself.
type Override struct {
	Key    string    `json:"key,omitempty"` // empty: all rules
	All    bool      `json:"all,omitempty"`
	Limit  string    `json:"limit"` // as a limits file has it: 2x, 500/s or bypass
	Until  time.Time `json:"until"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
	Ended  bool      `json:"ended"`

	// Because says why an override that has not ended changes nothing.
	Because string `json:"changes_nothing_because,omitempty"`
}

// overrides answers the overrides in force at this daemon, and those that have ended and are still in the
// text.
func (a *Answers) overrides(w http.ResponseWriter, _ *http.Request, who *callers.Caller) error {
	all := []Override{}
	for _, s := range a.Limits.Current().OverrideStates(time.Now()) {
		if s.All || who.MaySee(s.Key) {
			all = append(all, Override{s.Key, s.All, s.Amount(), s.Until.UTC(), s.Author, s.Reason, s.Ended, s.Idle})
		}
	}
	return reply.JSON(w, http.StatusOK, map[string]any{"overrides": all})
}

// putOverride changes the limit of a rule, of one key or of all rules for a time.
func (a *Answers) putOverride(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := overridden(r)
	if err != nil {
		return err
	}
	q, now := r.URL.Query(), time.Now()
	if _, err := rule.ParseOverride(q.Get("limit")); err != nil {
		return reply.Refuse(http.StatusBadRequest, "limit: %v", err)
	}
	lasts, err := dynamicconfig.ParseDuration(q.Get("for"))
	if err != nil {
		return reply.Refuse(http.StatusBadRequest, "for: %v", err)
	}
	o, err := edit.NewOverride(key, q.Get("limit"), now, now.Add(lasts).Truncate(time.Second))
	if err != nil {
		return reply.Refuse(http.StatusBadRequest, "%v", err)
	}
	o.Author, o.Reason = cmp.Or(who.Name(), "anyone"), q.Get("message")
	if o.Reason == "" {
		return reply.Refuse(http.StatusBadRequest, "say why, as in ?message=the sale began early")
	}
	return a.changeText(w, r, who, o.Reason, func(text string) (string, error) {
		text, err := edit.Override(text, o, now)
		if err != nil {
			return "", err
		}
		if err := edit.Idle(text, key, o.Bypass, now); err != nil {
			return "", reply.Refuse(http.StatusUnprocessableEntity, "%v", err)
		}
		return text, nil
	})
}

// deleteOverride ends an override and a bypass, or the bypass alone.
func (a *Answers) deleteOverride(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := overridden(r)
	if err != nil {
		return err
	}
	bypass, err := reply.Flag(r, "bypass")
	if err != nil {
		return err
	}
	message := cmp.Or(r.URL.Query().Get("message"), "end the override of "+cmp.Or(key, "all rules"))
	return a.changeText(w, r, who, message, func(text string) (string, error) {
		text, err := edit.EndOverride(text, key, bypass, time.Now())
		if errors.Is(err, edit.ErrNoOverride) {
			return "", reply.Refuse(http.StatusNotFound, "there is no such override: GET /v1/limits/overrides lists them")
		}
		return text, err
	})
}

// overridden is the key of the override that r is about; empty if it is for all rules.
func overridden(r *http.Request) (key string, err error) {
	key = r.URL.Query().Get("key")
	all, err := reply.Flag(r, "all")
	if err == nil && all == (key != "") {
		err = reply.Refuse(http.StatusBadRequest, "say which limit: the key of a rule or one key, as in ?key=orders:*, or all rules, as in ?all")
	}
	return key, err
}

// changeText makes what f makes of the text of the newest version the newest.
func (a *Answers) changeText(w http.ResponseWriter, r *http.Request, who *callers.Caller, message string, f func(text string) (string, error)) error {
	return a.Change(w, r, who, message, func(v history.Version) (string, error) {
		text, err := intact(v)
		if err != nil {
			return "", err
		}
		return Edited(f(text))
	})
}

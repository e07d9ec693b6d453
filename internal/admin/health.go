// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
	"time"
)

// Health is how a daemon does.
type Health struct {
	// Ready says whether to send requests here. Checks that fail do not change it
	// where all daemons would fail them at once, such as that of a broken file.
	Ready bool `json:"ready"`

	// Checks has what was looked at, by name.
	Checks map[string]Check `json:"checks"`

	// Config is what the limits are read from.
	Config Config `json:"config"`
}

// Check is one of the checks of a Health.
type Check struct {
	OK bool `json:"ok"`

	// Error says what is wrong, and what to do; empty if nothing is.
	Error string `json:"error,omitempty"`
}

// CheckOf is a Check that fails because of err; nil is no failure.
func CheckOf(err error) Check {
	if err != nil {
		return Check{Error: err.Error()}
	}
	return Check{OK: true}
}

// Config is the configuration that is in force.
type Config struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Rules   int       `json:"rules"`
	Since   time.Time `json:"since"` // when it came into force

	// Applied counts changes since the process began, and Refused what was not
	// valid.
	Applied int64 `json:"applied"`
	Refused int64 `json:"refused"`

	// RefusedAt is when something was last refused; zero if nothing was.
	RefusedAt time.Time `json:"refused_at,omitzero"`

	// Error is why the newest configuration is not in force; empty if it is.
	Error string `json:"error,omitempty"`
}

// write answers with h.
func (h Health) write(w http.ResponseWriter) {
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil { // no field of h can fail
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !h.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(text, '\n'))
}

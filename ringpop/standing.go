// SPDX-License-Identifier: Apache-2.0

package ringpop

import "time"

// State is whether a host is on the ring, and why.
type State string

const (
	// Up is that the host answers, and owns keys.
	Up State = "up"
	// Down is that the host does not answer.
	Down State = "down"
	// Left is that the host said that it leaves.
	Left State = "left"
	// Held is that the host answers, but came and went too often, and must wait.
	Held State = "held"
	// Observer is that the host answers, and owns no keys, on purpose or because it starts.
	Observer State = "observer"
)

// Standing is what this host knows of one member.
type Standing struct {
	Host  Host      `json:"host"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Why is the reason, for people.
	Why string `json:"why,omitempty"`
}

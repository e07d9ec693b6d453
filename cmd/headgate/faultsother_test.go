// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"testing"
	"time"
)

func partition(t *testing.T) *findings       { return notHere(t) }
func partitionOneWay(t *testing.T) *findings { return notHere(t) }
func loss(t *testing.T) *findings            { return notHere(t) }
func latency(t *testing.T) *findings         { return notHere(t) }
func fullDisk(t *testing.T) *findings        { return notHere(t) }
func clockSteps(t *testing.T) *findings      { return notHere(t) }

func notHere(t *testing.T) *findings {
	t.Helper()
	t.Skip("!!! SKIPPED: needs Linux")
	return nil
}

// stalled reports true: this system does not say.
func stalled(time.Time) bool { return true }

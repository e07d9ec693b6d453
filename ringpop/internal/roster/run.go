// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/ringpop"
)

// Board is a roster for concurrent use, which notifies its watchers of
// changes, and logs them. Use NewBoard.
type Board struct {
	log *slog.Logger

	mu      sync.Mutex // protects the following
	roster  *roster
	ready   bool
	next    chan struct{} // closed when the roster changes; nil while no caller waits
	split   bool          // the last View had missing members
	missing int           // of the last View, and not on the ring
	beside  int           // missing members that the roster does not know
}

// NewBoard returns the Board of the host at the address self. Watch waits until Ready.
func NewBoard(self string, log *slog.Logger) *Board {
	return &Board{log: log, roster: newRoster(self)}
}

// Ready lets Watch hand out lists.
func (b *Board) Ready() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.ready = true
	b.changedLocked()
}

// Up is roster.Up, now.
func (b *Board) Up(h ringpop.Host, observer bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.roster.Up(h, observer, time.Now()) {
		b.log.Info("member is there", "member", h.Address, "observer", observer)
		b.changedLocked()
	}
}

// Down is roster.Down, now.
func (b *Board) Down(address, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.roster.Down(address, why, time.Now()) {
		b.log.Warn("member does not answer, other hosts own its keys now", "member", address, "reason", why)
		b.changedLocked()
	}
}

// Left is roster.Left, now.
func (b *Board) Left(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.roster.Left(address, time.Now()) {
		b.log.Info("member leaves, other hosts own its keys now", "member", address)
		b.changedLocked()
	}
}

// Holds notes whether a member says that it has this host wait.
func (b *Board) Holds(address string, holds bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.roster.Holds(address, holds) {
		b.changedLocked()
	}
}

// Silent is roster.Silent.
func (b *Board) Silent(address string, silent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.roster.Silent(address, silent) {
		b.changedLocked()
	}
}

// Waiting returns the addresses of the other hosts that must wait, or do not answer this one, sorted.
func (b *Board) Waiting() []string {
	b.mu.Lock()
	defer b.mu.Unlock()

	addresses, _ := b.roster.Waiting(time.Now())
	return addresses
}

// FollowWaiting calls changed whenever Waiting changes, until ctx ends.
func (b *Board) FollowWaiting(ctx context.Context, changed func()) {
	var last []string
	for ctx.Err() == nil {
		b.mu.Lock()
		waiting, due := b.roster.Waiting(time.Now())
		next := b.nextLocked()
		b.mu.Unlock()
		if !slices.Equal(waiting, last) {
			last = waiting
			changed()
		}
		await(ctx, next, due)
	}
}

// Keep forgets all members but these.
func (b *Board) Keep(addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.roster.Keep(addresses) {
		b.changedLocked()
	}
}

// Standings is roster.Standings, now.
func (b *Board) Standings() []ringpop.Standing {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.roster.Standings(time.Now())
}

// Unlisted says how many deciders are missing beside those that the Board knows.
func (b *Board) Unlisted(missing int) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.beside = missing
	b.changedLocked()
}

// Missing implements ringpop.Split.
func (b *Board) Missing() int {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.missing + b.beside
}

// Watch implements ringpop.Members, from Ready on.
func (b *Board) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	var last View
	first := true
	for ctx.Err() == nil {
		view, ready, changed := b.view()
		if ready && (first || view.Missing != last.Missing || !slices.Equal(view.Hosts, last.Hosts)) {
			first, last = false, view
			update(slices.Clone(view.Hosts))
		}
		await(ctx, changed, view.Next)
	}
	return nil
}

// await waits until changed closes, ctx ends, or due, unless that is zero.
func await(ctx context.Context, changed <-chan struct{}, due time.Time) {
	var timeout <-chan time.Time
	if !due.IsZero() {
		timeout = time.After(time.Until(due))
	}
	select {
	case <-changed:
	case <-timeout:
	case <-ctx.Done():
	}
}

// view returns the ring now, and what closes when the roster changes.
func (b *Board) view() (View, bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()

	v := b.roster.View(time.Now())
	before := b.split
	b.split = v.Missing > 0
	switch {
	case b.split && !before:
		b.log.Error("this host lost more deciders at once than it reaches, and may be on the smaller side of a split: owners on this side grant a part of each limit; check this host's network",
			"lost", v.Missing)
	case before && !b.split:
		b.log.Info("this host reaches most deciders again, or learned that they are gone")
	}
	if v.Kept {
		v.Missing = 0
	}
	b.missing = v.Missing
	v.Missing += b.beside
	return v, b.ready, b.nextLocked()
}

// nextLocked returns what closes when the roster changes.
func (b *Board) nextLocked() <-chan struct{} {
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *Board) changedLocked() {
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

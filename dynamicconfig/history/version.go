// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/dynamicconfig"
)

// Version is one version of the limits.
type Version struct {
	// Number counts from 1. Each version has one more than the version before it.
	Number int64

	// Text is the whole config file as its author wrote it. Lists leave it out.
	Text string

	// Author is the person or program that made the change, in its own words: a store
	// does not check it.
	Author string

	// Message is the reason; may be empty.
	Message string

	// Time is when the change was made, by the clock of its author's machine, in UTC and
	// whole microseconds. Zero: the store has none that can be.
	Time time.Time

	// Fingerprint is dynamicconfig.Snapshot's Version of Text, by the release of headgate
	// that stored it.
	Fingerprint string

	// Damaged reports that the store knows that Text is not what was stored. Lists leave it out.
	Damaged bool
}

// Parse returns the limits of v, whose Text must be there. A Text that is not what was stored is an error.
func (v Version) Parse() (*dynamicconfig.Snapshot, error) {
	if err := v.Intact(); err != nil {
		return nil, err
	}
	return dynamicconfig.Parse(v.Name(), []byte(v.Text))
}

// Intact returns why the Text of v, which must be there, is not what was stored: it is Damaged, or no Change
// can have it. Nothing is to be made of such a Text.
func (v Version) Intact() error {
	if v.Damaged || !storable(v.Text) {
		return fmt.Errorf("%s is damaged: the database has another text than was stored. Apply the limits again, or roll back to an earlier version", v.Name())
	}
	return nil
}

// Name is what messages call v: "version 7".
func (v Version) Name() string { return "version " + strconv.FormatInt(v.Number, 10) }

// Change asks for a new version.
type Change struct {
	// Base is the number of the newest version that the author has seen; 0 if there was
	// none. The change is refused if another version has come since.
	Base int64

	// Seen is the Fingerprint of Base, and the change is refused if the newest version has
	// another one: a database that was replaced counts from 1 again. Empty: only Base counts.
	Seen string

	// Text is the whole new config file.
	Text string

	// Author is required: 1 to 128 bytes, one line.
	Author string

	// Message is the reason, of at most 4096 bytes. Default none.
	Message string
}

// Bounds of a Change, in bytes.
const (
	MaxAuthor  = 128
	MaxMessage = 4096
)

// Version checks c, and returns the version that it makes at now. The error has each
// mistake in the text, as dynamicconfig.Parse reports them.
func (c Change) Version(now time.Time) (Version, error) {
	var errs []error
	if c.Base < 0 {
		errs = append(errs, fmt.Errorf("base %d: name a version, or 0 if there is none", c.Base))
	}
	if err := CheckAuthor(c.Author); err != nil {
		errs = append(errs, fmt.Errorf("author %w", err))
	}
	if len(c.Message) > MaxMessage || !plain(c.Message, "\n\t") {
		errs = append(errs, fmt.Errorf("message %.40q: write at most %d bytes of text, without control characters", c.Message, MaxMessage))
	}
	s, err := dynamicconfig.Parse("limits", []byte(c.Text))
	if err == nil && !storable(c.Text) { // the parser refuses what is not UTF-8
		err = errors.New("limits: there is a NUL byte in the text: remove it")
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return Version{}, err
	}
	return Version{
		Number: c.Base + 1, Text: c.Text, Author: c.Author, Message: c.Message,
		Time: now.UTC().Truncate(time.Microsecond), Fingerprint: s.Version(),
	}, nil
}

// storable reports whether databases can store text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// CheckAuthor returns why no Change can have author.
func CheckAuthor(author string) error {
	if author == "" || len(author) > MaxAuthor || !plain(author, "") {
		return fmt.Errorf("%.40q: write 1 to %d bytes of text in one line", author, MaxAuthor)
	}
	return nil
}

// plain reports whether text is UTF-8 without control characters other than those in but.
func plain(text, but string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune(but, r)
	})
}

// Fits reports whether c is based on newest, the newest version; its Number is 0 if there is none.
func (c Change) Fits(newest Version) bool {
	return c.Base == newest.Number && (c.Seen == "" || c.Seen == newest.Fingerprint)
}

// Conflict is the error of a Change that is not based on the newest version. Nothing was
// changed. If both numbers are the same, Base is a version of a database that was replaced since.
type Conflict struct {
	Base, Newest int64
}

// Error implements error.
func (c *Conflict) Error() string {
	if c.Base == c.Newest {
		return fmt.Sprintf("version %d is not the one that you have seen: the database was replaced. Look at the limits anew, and make the change again", c.Base)
	}
	return fmt.Sprintf("the newest version is %d, and this change is based on %d: look at what has changed, and make the change again", c.Newest, c.Base)
}

// ErrEmpty is the error of a store that has no version yet.
var ErrEmpty = errors.New("there are no limits yet: apply a first version")

// ErrNoVersion is the error of a version that was never made, or was pruned.
var ErrNoVersion = errors.New("there is no such version, or it was pruned")

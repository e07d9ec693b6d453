// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"time"
)

// Bounds of takes and of their answers, beside those of Usage.
const (
	// MaxTakes is the most takes in one message.
	MaxTakes = 4096
	// MaxTokens is the most tokens of one take, either way.
	MaxTokens = 1 << 53
	// MaxWait is the longest wait: who would wait for longer does not get its
	// tokens, and asks again as if it were never.
	MaxWait = 24 * time.Hour
	// MaxWithdrawn is the most withdrawn batches in one message.
	MaxWithdrawn = 64
)

// Takes take tokens from the buckets that the owner of their keys keeps. The
// zero Takes asks for nothing.
type Takes struct {
	// Caller numbers the sender, at random, and Batch counts a caller's messages
	// to one owner. By both, the owner recognizes a message that is delivered
	// twice. A Caller of 0 disables the check.
	Caller, Batch uint64

	// Settled: what the owner remembers of batches before this one is not
	// needed any more. At most Batch.
	Settled uint64

	// Withdrawn are batches without an answer, at most MaxWithdrawn: they do
	// not count, whether or not the owner has seen them.
	Withdrawn []uint64

	// Rows are served in order; a key may be in many.
	Rows []Take
}

// Take takes tokens from the bucket of one key.
type Take struct {
	// Key is the full key, `group:name`; 1 to MaxKeyLength bytes.
	Key string

	// Auto: the bucket is the key's under the algorithm auto, and not the one
	// under exact. A key that migrates between the two has both.
	Auto bool

	// Tokens is how many, in [-MaxTokens, MaxTokens]. Below 0: to give them
	// back, which is always OK. 0 asks what is left.
	Tokens float64

	// Longest is how long the caller waits for them, at most MaxWait; below 0:
	// for as long as the rule lets it.
	Longest time.Duration

	// Spent says that the tokens are spent already, whatever the owner says.
	Spent Spent

	// Told is what was left when an owner last told this caller, which was By,
	// Ago ago. By 0: nobody told. A new owner learns from it.
	Told float64
	Ago  time.Duration
	By   uint32
}

// Spent says what became of the tokens before the owner was asked.
type Spent uint8

const (
	// SpentNot is nothing: they are taken if they are there.
	SpentNot Spent = iota
	// SpentBeyond is that they are spent, and taken into debt if need be, as
	// deep as the owner's rule allows.
	SpentBeyond
	// SpentApart is that they were spent while the owner could not be asked.
	// They are taken into a debt of at most one burst.
	SpentApart
)

// Taken answers Takes: row i is about take i.
type Taken struct {
	// By is the owner's number, at random and not 0, which a process keeps.
	By   uint32
	Rows []Took
}

// Took is what became of one Take.
type Took struct {
	// Decided: it is this owner that keeps the bucket. If not, nothing was
	// taken, and all else is zero.
	Decided bool

	// OK: the tokens are taken, and may be used after Wait, in [0, MaxWait].
	OK   bool
	Wait time.Duration

	// Retry is, if not OK, after how long asking again may help, in
	// (0, MaxWait]; MaxWait may stand for never.
	Retry time.Duration

	// Left is what is left in the bucket; below 0 in debt, finite.
	Left float64

	// Short is how many of the Take's tokens were not moved although it is OK:
	// what is spent already is taken only down to a bound, and a full bucket
	// takes nothing in. It has the sign of the tokens.
	Short float64
}

// moved is how many tokens t moved, which took answers.
func (t *Take) moved(took *Took) float64 {
	if !took.OK {
		return 0
	}
	if t.Tokens < 0 {
		return min(t.Tokens-min(took.Short, 0), 0)
	}
	return max(t.Tokens-max(took.Short, 0), 0)
}

// opposite undoes t, which took answers.
func (t *Take) opposite(took *Took) Take {
	back := Take{Key: t.Key, Auto: t.Auto, Tokens: -t.moved(took)}
	if back.Tokens > 0 { // it had given them back
		back.Spent = SpentBeyond
	}
	return back
}

// Check reports what in t is against the contract, naming the first such row,
// or nil. The error is an ErrPayload.
func (t *Takes) Check() error {
	if len(t.Rows) > MaxTakes {
		return refuse("%d takes in one message; send at most %d", len(t.Rows), MaxTakes)
	}
	if len(t.Withdrawn) > MaxWithdrawn {
		return refuse("%d withdrawn batches in one message; send at most %d", len(t.Withdrawn), MaxWithdrawn)
	}
	if t.Settled > t.Batch {
		return refuse("batch %d settles those before %d; settle what was before", t.Batch, t.Settled)
	}
	for i := range t.Rows {
		if err := t.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (t *Take) check(row int) error {
	if err := checkKey(row, len(t.Key)); err != nil {
		return err
	}
	if !(t.Tokens >= -MaxTokens && t.Tokens <= MaxTokens) {
		return refuse("row %d: %v tokens; take at most 2^53, either way", row, t.Tokens)
	}
	if t.Longest > MaxWait {
		return refuse("row %d: waits for %v; wait for at most %v", row, t.Longest, MaxWait)
	}
	if t.Spent > SpentApart {
		return refuse("row %d: tokens spent in way %d; this release knows 0 to %d", row, t.Spent, SpentApart)
	}
	if !finite(t.Told) {
		return refuse("row %d: %v tokens were left; that is finite", row, t.Told)
	}
	if t.Ago < 0 || t.Ago > MaxElapsed {
		return refuse("row %d: told %v ago; that is in [0, %v]", row, t.Ago, MaxElapsed)
	}
	return nil
}

// Check reports what in t is against the contract as an answer to n takes,
// naming the first such row, or nil. The error is an ErrPayload.
func (t *Taken) Check(n int) error {
	if len(t.Rows) != n {
		return refuse("%d answers to %d takes; answer every take, in order", len(t.Rows), n)
	}
	if t.By == 0 {
		return refuse("the owner's number is 0; choose another")
	}
	for i := range t.Rows {
		if err := t.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (t *Took) check(row int) error {
	switch {
	case !t.Decided && *t != Took{}:
		return refuse("row %d: %+v, and not decided; then nothing else is said", row, *t)
	case t.Wait < 0 || t.Wait > MaxWait || t.Wait > 0 && !t.OK:
		return refuse("row %d: tokens taken is %v, after %v; that is in [0, %v]", row, t.OK, t.Wait, MaxWait)
	case t.Retry < 0 || t.Retry > MaxWait || (t.Retry > 0) != (t.Decided && !t.OK):
		return refuse("row %d: tokens taken is %v, to ask again after %v; that is in (0, %v] if they are not", row, t.OK, t.Retry, MaxWait)
	case !(math.Abs(t.Short) <= MaxTokens) || t.Short != 0 && !t.OK:
		return refuse("row %d: %v tokens were not moved; that is at most 2^53, of takes that are OK", row, t.Short)
	case !finite(t.Left):
		return refuse("row %d: %v tokens are left; that is finite", row, t.Left)
	}
	return nil
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// SPDX-License-Identifier: Apache-2.0

package rpc

import "time"

// Placement says who owns a key. Implementations are safe for concurrent use.
type Placement interface {
	// Owner is the address of the host that decides key, or "" if there is none.
	Owner(key string) string
}

// What one call carries at most.
const (
	// DefaultKeysPerCall is the most keys in one call when nobody says otherwise.
	DefaultKeysPerCall = 10_000

	// maxBytesPerCall keeps a call with long keys below the 4 MiB that
	// transports take. rowBytes is the most that a row adds to its key.
	maxBytesPerCall = 3 << 20
	rowBytes        = 32
)

// Part is the rows of a Usage that go to one owner in one call.
type Part struct {
	// Owner is the address of the host that decides these keys.
	Owner string

	// Usage has the part's rows. It shares no column with what was split,
	// but the keys' strings.
	Usage *Usage

	// Rows says which row of what was split each row is: row i of Usage is
	// row Rows[i] there. Increasing.
	Rows []int

	// Err, when not nil, is why these keys cannot be asked for: ErrNoOwner,
	// or an ErrPayload if the columns of what was split disagree.
	Err error
}

// Split groups u's rows by owner, in the order in which owners first appear,
// at most maxKeys (0: DefaultKeysPerCall) and about 3 MiB in each part. Every
// row is in one part. It keeps nothing of u but the keys' strings.
func Split(u *Usage, p Placement, maxKeys int) []Part {
	if u.Len() == 0 {
		return nil
	}
	if err := u.checkColumns(); err != nil {
		return []Part{{Usage: u, Rows: upTo(u.Len()), Err: err}}
	}
	if maxKeys <= 0 {
		maxKeys = DefaultKeysPerCall
	}
	parts, sizes, partOf := assign(u, p, min(maxKeys, MaxKeys))
	return fill(u, parts, sizes, partOf)
}

// assign opens the parts and says for each row which part it is in.
func assign(u *Usage, p Placement, maxKeys int) (parts []Part, sizes, partOf []int) {
	open := make(map[string]int) // owner to its newest part
	var weighs []int             // bytes in each part
	partOf = make([]int, u.Len())
	for row, key := range u.Keys {
		owner := p.Owner(key)
		part, ok := open[owner]
		if !ok || owner != "" && (sizes[part] == maxKeys || weighs[part]+len(key)+rowBytes > maxBytesPerCall) {
			part = len(parts)
			open[owner] = part
			parts = append(parts, Part{Owner: owner})
			sizes, weighs = append(sizes, 0), append(weighs, 0)
			if owner == "" {
				parts[part].Err = ErrNoOwner
			}
		}
		partOf[row] = part
		sizes[part]++
		weighs[part] += len(key) + rowBytes
	}
	return parts, sizes, partOf
}

// fill copies the rows into their parts, which are cut from one array per column.
func fill(u *Usage, parts []Part, sizes, partOf []int) []Part {
	n := u.Len()
	all := &Usage{
		Keys:     make([]string, n),
		Allowed:  make([]int64, n),
		Rejected: make([]int64, n),
		Elapsed:  make([]time.Duration, n),
		Weight:   make([]float64, n),
	}
	if u.Wants != nil {
		all.Wants = make([]float64, n)
	}
	if u.Cost != nil {
		all.Cost = make([]float64, n)
	}
	rows := make([]int, n)
	usages := make([]Usage, len(parts))
	next := make([]int, len(parts)) // where each part's next row goes
	from := 0
	for i, size := range sizes {
		to := from + size
		usages[i] = Usage{
			Algorithm: u.Algorithm,
			Keys:      all.Keys[from:to:to],
			Allowed:   all.Allowed[from:to:to],
			Rejected:  all.Rejected[from:to:to],
			Elapsed:   all.Elapsed[from:to:to],
			Weight:    all.Weight[from:to:to],
		}
		if all.Wants != nil {
			usages[i].Wants = all.Wants[from:to:to]
		}
		if all.Cost != nil {
			usages[i].Cost = all.Cost[from:to:to]
		}
		parts[i].Usage, parts[i].Rows = &usages[i], rows[from:to:to]
		next[i] = from
		from = to
	}
	for row, part := range partOf {
		to := next[part]
		next[part]++
		all.Keys[to], all.Allowed[to], all.Rejected[to] = u.Keys[row], u.Allowed[row], u.Rejected[row]
		all.Elapsed[to], all.Weight[to] = u.Elapsed[row], u.Weight[row]
		if all.Wants != nil {
			all.Wants[to] = u.Wants[row]
		}
		if all.Cost != nil {
			all.Cost[to] = u.Cost[row]
		}
		rows[to] = row
	}
	return parts
}

func upTo(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// Changes returns what after changes in before, as dynamicconfig.Diff does: at least the first most changes, and how
// many more there are. Both versions have their Text. Of large texts, it parses only the rules that differ.
func Changes(before, after Version, most int) (first []dynamicconfig.Change, more int, err error) {
	if err := before.Intact(); err != nil {
		return nil, 0, err
	}
	if err := after.Intact(); err != nil {
		return nil, 0, err
	}
	if len(before.Text)+len(after.Text) >= largeText {
		if old, new, left, ok := differing(before.Text, after.Text, max(most, 1)); ok {
			if first, err = diff(before.Name(), old, after.Name(), new); err == nil { // else a part of the text is no text
				return first, left, nil
			}
		}
	}
	first, err = diff(before.Name(), before.Text, after.Name(), after.Text)
	return first, 0, err
}

// largeText is how many bytes take a while to parse.
const largeText = 1 << 16

// diff is what the text called newName changes in that called oldName.
func diff(oldName, old, newName, new string) ([]dynamicconfig.Change, error) {
	from, err := dynamicconfig.Parse(oldName, []byte(old))
	if err != nil {
		return nil, err
	}
	to, err := dynamicconfig.Parse(newName, []byte(new))
	if err != nil {
		return nil, err
	}
	return dynamicconfig.Diff(from, to), nil
}

// differing leaves out of two texts the rules that are the same in both, but for those beside others, which tell the
// order. If only one text has other rules, it leaves out all but the first most of these, and left is how many it leaves
// out so. ok is false if the rules are not written as those of large texts are, if they stand in another order, or if
// something else differs that rules depend on.
func differing(old, new string, most int) (oldPart, newPart string, left int, ok bool) {
	a, okA := rulesOf(old)
	b, okB := rulesOf(new)
	ofA, readA := a.read(0, func(int) bool { return true })
	if !okA || !okB || !readA || a.list != "" && b.list != "" && a.rest() != b.rest() { // such as defaults, which are for all rules
		return "", "", 0, false
	}
	// The two lists begin and end with the same rules: only one of them is read there.
	prefix, suffix := commonPrefix(a.list, b.list), commonSuffix(a.list, b.list)
	first, at := 0, 0 // the last rule at the begin that both have, and where it begins
	for first+1 < len(ofA) && at+len(ofA[first])+len(ofA[first+1]) <= prefix {
		at += len(ofA[first])
		first++
	}
	last := len(ofA)               // the first rule at the end that both have
	begins := map[int]int{0: last} // of rules that may be that one, by how many bytes there are from there on
	for i, rest := last-1, 0; i > first; i-- {
		if rest += len(ofA[i]); rest > suffix {
			break
		}
		begins[rest] = i
	}
	ofB, readB := b.read(at, func(rest int) bool {
		i, same := begins[rest]
		if same {
			last = i
		}
		return !same
	})
	if !readB {
		return "", "", 0, false
	}
	tail := ofA[last:min(last+1, len(ofA))]
	ofA, ofB, left, ok = thin(slices.Concat(ofA[first:last], tail), slices.Concat(ofB, tail), most)
	return a.with(ofA), b.with(ofB), left, ok
}

// thin is differing of the rules of two texts.
func thin(a, b []string, most int) (thinA, thinB []string, left int, ok bool) {
	inA := make(map[string]int, len(a))
	for i, rule := range a {
		inA[rule] = i
	}
	keep := make(map[string]bool) // rules that both have
	i, j, same := 0, 0, ""        // the last rule that both have, and what comes after it in a and in b
	var onlyA, onlyB []string
	next := func(toA, toB int, rule string) {
		if toA > i || toB > j {
			keep[same], keep[rule] = true, true
		}
		onlyA, onlyB = append(onlyA, a[i:toA]...), append(onlyB, b[j:toB]...)
		i, j, same = toA+1, toB+1, rule
	}
	for to, rule := range b {
		if at, both := inA[rule]; both {
			if at < i {
				return nil, nil, 0, false
			}
			next(at, to, rule)
		}
	}
	next(len(a), len(b), "")
	if len(keep) == 0 && len(a) > 0 && len(b) > 0 {
		keep[a[0]] = true // the list must not be empty
	}
	switch {
	case len(onlyA) == 0 && len(onlyB) > most:
		left, onlyB = len(onlyB)-most, onlyB[:most]
	case len(onlyB) == 0 && len(onlyA) > most:
		left, onlyA = len(onlyA)-most, onlyA[:most]
	}
	return kept(a, keep, onlyA), kept(b, keep, onlyB), left, true
}

// kept are those of all that are in keep or in also, which has some of the others, in the same order.
func kept(all []string, keep map[string]bool, also []string) (some []string) {
	for _, rule := range all {
		if len(also) > 0 && rule == also[0] {
			also = also[1:]
		} else if !keep[rule] {
			continue
		}
		some = append(some, rule)
	}
	return some
}

// rules are a text with its list of rules apart.
type rules struct{ before, list, after string }

// rulesOf takes text apart. ok is false if it is not written as large texts are, and has rules.
func rulesOf(text string) (r rules, ok bool) {
	f := strictyaml.File{Problems: strictyaml.Problems{Text: text}}
	if begin, end, ok := f.Items("limits"); ok {
		return rules{text[:begin], text[begin:end], text[end:]}, true
	}
	s, err := dynamicconfig.Parse("limits", []byte(text))
	return rules{before: text}, err == nil && len(s.Rules()) == 0
}

// read returns the rules from a place of the list on, until more, which is called after each rule with how many bytes
// are left, returns false. ok is false if one of them cannot be read by itself.
func (r *rules) read(at int, more func(rest int) bool) (all []string, ok bool) {
	for end := range strictyaml.Ends(r.list, at) {
		if end < 0 {
			return nil, false
		}
		all = append(all, r.list[at:end])
		if at = end; !more(len(r.list) - end) {
			break
		}
	}
	return all, true
}

// rest is what rules depend on: the text without the rules, and without overrides.
func (r *rules) rest() string {
	text := r.before + r.after
	const list = "overrides"
	f := strictyaml.File{Problems: strictyaml.Problems{Text: text}}
	if begin, end, ok := f.Items(list); ok {
		text = strings.TrimSuffix(text[:begin], list+":\n") + text[end:]
	}
	return text
}

// with is the text with other rules.
func (r *rules) with(some []string) string { return r.before + strings.Join(some, "") + r.after }

// commonPrefix is how many bytes of a and b are the same from the begin on.
func commonPrefix(a, b string) (n int) {
	const many = 1 << 10 // that are compared fast
	for len(a) >= n+many && len(b) >= n+many && a[n:n+many] == b[n:n+many] {
		n += many
	}
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// commonSuffix is how many bytes of a and b are the same before the end.
func commonSuffix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

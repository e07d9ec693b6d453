// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
)

// said is all that a Result says.
func said(r Result) any {
	var problems []string
	r.Problems.Each(func(at build.Mark, message, source string) {
		problems = append(problems, fmt.Sprint(at, message, source))
	})
	if r.Content == nil {
		return problems
	}
	var found, notes []string
	for _, rule := range r.Content.Rules {
		for _, key := range []string{rule.Key, rule.Key + "x", strings.TrimSuffix(rule.Key, "*")} {
			found = append(found, fmt.Sprint(key, r.Content.Keys.Index.Find(key)))
		}
	}
	r.Content.Notes(r.Content.Keys.Hidden(r.Content.Rules), 0, func(i int, text string) { notes = append(notes, fmt.Sprint(i, text)) })
	return []any{r.Text, problems, places(r.Content), r.Content.Private, found, notes}
}

// lines are what edits put into a text: what is plain, and what is not.
var lines = []string{
	"  - {key: new-%d, limit: 1/s}", "  - {key: \"new-%d:*\", limit: 5 in-flight}", "  - key: new-%d\n    limit: 1/s\n    parameters:\n      a: b",
	"    burst: %d", "    # %d", "# %d", "", "      %d", "  - new-%d", "   - {key: deep-%d, limit: 1/s}", "  -", "  - {key: open-%d, limit: 1/s", "\t# %d", "---",
	"  - &a%d {key: a, limit: 1/s}", "  - *a%d", "  - !t {key: t%d, limit: 1/s}", "    description: |\n      a %d\n\n      - b", "    description: \"a\n      b%d\"",
	"    description: 'a\n  - b%d'", "limits:", "limits: # %d", "unmatched: deny", "defaults: {lease: 20s}", "- {key: out-%d, limit: 1/s}", "\x01%d", "\xff%d",
	"  - {limit: 1/s, key: second-%d}", "  - {key: tenant-000004:orders, limit: %d/s}", "  - {key: \"*%d*\", limit: 1/s}", "    max_cost: 1000000%d", "\r", "\ufeff", "  # é%d",
	"  - {key: mine-%d, limit: 1/s, algorithm: mine}", "  - {key: band-%d, limit: 5 in-flight, algorithm: fair-share, priorities: {5: none}}",
	strings.Repeat("\n", 60),
}

// edited changes some lines of text, most often one.
func edited(text string, random *rand.Rand) string {
	all := strings.Split(text, "\n")
	for range 1 + random.IntN(2)*random.IntN(4) {
		at, to := random.IntN(len(all)), random.IntN(len(all))
		from, until := min(at, to), max(at, to)
		line := lines[random.IntN(len(lines))]
		if strings.Contains(line, "%d") {
			line = fmt.Sprintf(line, random.IntN(1000))
		}
		switch random.IntN(9) {
		case 0:
			all = slices.Delete(all, at, at+1)
		case 1:
			all = slices.Insert(all, at, all[to])
		case 2:
			all = slices.Concat(all[:from], all[until:], all[from:until])
		case 3:
			all = slices.Delete(all, from, until)
		case 4, 5:
			all[at] = strings.NewReplacer("/s", fmt.Sprintf("%d/s", random.IntN(10)), "/m", "/h", ":x", ":y").Replace(all[at])
		default:
			all = slices.Insert(all, at, line)
		}
		if len(all) == 0 {
			return ""
		}
	}
	return strings.Join(all, "\n")
}

// expectNoMemory parses text after before and alone, and returns what it says if that can follow.
func expectNoMemory(t *testing.T, text string, before *build.Content) *build.Content {
	t.Helper()
	alone, after := parseLarge([]byte(text), nil), parseLarge([]byte(text), before)
	if !reflect.DeepEqual(said(alone), said(after)) {
		t.Fatalf("%v\nafter another text it is\n%v\n%s", said(alone), said(after), text)
	}
	if after.Problems.Any() {
		return nil
	}
	return after.Content
}

func TestWhatATextSaysDoesNotDependOnTheTextBefore(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	valid, broken := 0, 0
	for range 20 {
		text := string(many(200 + random.IntN(200)))
		before := expectNoMemory(t, text, nil)
		for range 30 {
			next := edited(text, random)
			if content := expectNoMemory(t, next, before); content != nil {
				text, before = next, content
				valid++
			} else {
				broken++
			}
		}
	}
	if valid < 100 || broken < 50 {
		t.Errorf("%d texts are valid, and %d have mistakes", valid, broken)
	}
}

// FuzzAfter reads a text after another one and alone, which must agree.
func FuzzAfter(f *testing.F) {
	f.Add(string(many(200)), uint64(1))
	f.Add("limits:\n- key: a\n  limit: 1/s\n- {key: b, limit: 2/s}\n", uint64(2))
	f.Add("limits:\n\n  # c\n  - key: a\n    # d\n\n    limit: 1/s", uint64(3))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > largeFile {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		before := expectNoMemory(t, text, nil)
		for range 3 {
			expectNoMemory(t, edited(text, random), before)
		}
	})
}

func TestOneChangeLeavesTheOtherRunsAlone(t *testing.T) {
	text := string(many(2000))
	old := parseLarge([]byte(text), nil).Content
	for name, next := range map[string]string{
		"a limit":      strings.Replace(text, "limit: 1001/s", "limit: 7/s", 1),
		"a new rule":   strings.Replace(text, "  - key: \"tenant-001005", "  - {key: new, limit: 5/s}\n  - key: \"tenant-001005", 1),
		"a rule less":  strings.Replace(text, "  - {key: \"tenant-001001:*\", limit: 1002/m, max_keys: 50, shared: true} # a glob\n", "", 1),
		"an override":  strings.Replace(text, "limit: 2x", "limit: 3x", 1),
		"more":         strings.Replace(strings.Replace(text, "limit: 4/s", "limit: 7/s", 1), "limit: 2000/s", "limit: 8/s", 1),
		"line numbers": strings.Replace(text, "limits:\n", "limits:\n\n\n", 1),
	} {
		new := expectNoMemory(t, next, old)
		if next == text || new == nil {
			t.Fatal("nothing changes")
		}
		others := 0
		for _, r := range new.Rules {
			if !slices.Contains(old.Rules, r) {
				others++
			}
		}
		if others > 2*64 || slices.Equal(new.Places, old.Places) != (strings.Count(next, "\n") == strings.Count(text, "\n")) {
			t.Errorf("%s: %d rules were read again", name, others)
		}
		if same := name != "a new rule" && name != "a rule less"; (new.Keys == old.Keys) != same {
			t.Errorf("%s: the rules are found by what found those before: %v", name, !same)
		}
	}
}

// Files are read as they are alone, whatever files of these names said before.
func TestWhatFilesSayDoesNotDependOnTheFilesBefore(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	all := func(parts []Read, whole Result) (all []any) {
		for _, p := range parts {
			all = append(all, said(p.Result))
		}
		if whole.Content != nil {
			all = append(all, said(whole))
		}
		return all
	}
	valid, broken := 0, 0
	for range 3 {
		var files []File
		for i, rules := range []int{5, 100, 1200} {
			text := strings.ReplaceAll(string(many(rules)), "tenant-", fmt.Sprintf("team-%d-", i))
			if i > 0 {
				text = strings.NewReplacer("unmatched: {limit: 5/s, algorithm: mine}\n", "", "a.b", fmt.Sprint("a.", i)).Replace(text)
			}
			if i == 1 {
				text = strings.Replace(text, "{fallback: closed}", "{update_interval: 5s}", 1)
			}
			files = append(files, File{fmt.Sprint("file-", i), []byte(text)})
		}
		before, whole := Files(files, nil, nil)
		for range 20 {
			next := slices.Clone(files)
			for range 1 + random.IntN(2) {
				f := &next[random.IntN(len(next))]
				if random.IntN(3) == 0 {
					f.Data = []byte(edited(string(f.Data), random))
				} else {
					f.Data = []byte(strings.Replace(string(f.Data), "burst: 2000", fmt.Sprint("burst: ", 100+random.IntN(100)), random.IntN(3)))
				}
			}
			switch at := random.IntN(len(next)); random.IntN(8) {
			case 0:
				if len(next) > 2 {
					next = slices.Delete(next, at, at+1)
				}
			case 1:
				next = append(next, File{"another", next[at].Data})
			case 2:
				next = append(next, File{"new", []byte("limits: [{key: new, limit: 1/s}]\ndefaults: {update_interval: 7s}\n")})
			}
			alone, aloneWhole := Files(next, nil, nil)
			after, afterWhole := Files(next, before, whole.Content)
			if !reflect.DeepEqual(all(alone, aloneWhole), all(after, afterWhole)) {
				t.Fatalf("%v\nafter other files they are\n%v\n%s", all(alone, aloneWhole), all(after, afterWhole), next)
			}
			if afterWhole.Content == nil {
				broken++
				continue
			}
			files, before, whole = next, after, afterWhole
			valid++
		}
	}
	if valid < 10 || broken < 5 {
		t.Errorf("%d folders are valid, and %d have mistakes", valid, broken)
	}
}

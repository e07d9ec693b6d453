// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// page is a Markdown file in the parts that are tested.
type page struct {
	path   string
	fences []fence
	links  []link
	// anchors are the fragments that its headings answer to.
	anchors []string
}

// fence is a fenced block.
type fence struct {
	line  int    // of its first line of text
	lang  string // "go" of ```go
	text  string
	given string // of the comment just above, if any
	from  string // the file that the text is taken from, as the comment just above says
}

type link struct {
	line   int
	target string
}

// pages reads the Markdown files of the tree, except test data.
func pages(tree fs.FS) ([]page, error) {
	var all []page
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", ".bin", "bin", "testdata", "node_modules"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		all = append(all, parse(name, string(data)))
		return nil
	})
	return all, err
}

var (
	inlineLink  = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	defined     = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*(\S+)`)
	htmlLink    = regexp.MustCompile(`(?:src|href|srcset)="([^"\s]+)"`)
	heading     = regexp.MustCompile(`^#{1,6}\s+(.+?)\s*#*\s*$`)
	givenText   = regexp.MustCompile(`(?s)<!--\s*given:(.*?)-->\s*$`)
	fromText    = regexp.MustCompile(`<!--\s*from:\s*(\S+)\s*-->\s*$`)
	codeSpan    = regexp.MustCompile("`+[^`]*`+")
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// parse reads a page line by line. It knows what this repository's documents
// use, not all of Markdown.
func parse(name, text string) page {
	p := page{path: name}
	var open *fence
	var mark string                 // what closes the open fence
	var indent int                  // of the open fence
	var above, body strings.Builder // the text before the fence; the text in it
	n := 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimSpace(line)
		if open != nil {
			if strings.HasPrefix(bare, mark) && strings.Trim(bare, mark[:1]) == "" {
				open.text = body.String()
				p.fences = append(p.fences, *open)
				open = nil
				above.Reset()
				continue
			}
			body.WriteString(line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):])
			continue
		}
		if m := fenceMark(bare); m != "" {
			lang, _, _ := strings.Cut(strings.TrimSpace(bare[len(m):]), " ")
			open = &fence{line: n + 1, lang: lang}
			if g := givenText.FindStringSubmatch(above.String()); g != nil {
				open.given = strings.TrimSpace(g[1])
			}
			if g := fromText.FindStringSubmatch(above.String()); g != nil {
				open.from = g[1]
			}
			mark, indent = m, strings.Index(line, m)
			body.Reset()
			continue
		}
		above.WriteString(line)
		if m := heading.FindStringSubmatch(line); m != nil {
			p.anchors = append(p.anchors, p.anchor(m[1]))
		}
		shown := codeSpan.ReplaceAllString(line, "")
		for _, links := range []*regexp.Regexp{inlineLink, defined, htmlLink} {
			for _, m := range links.FindAllStringSubmatch(shown, -1) {
				p.links = append(p.links, link{line: n, target: m[1]})
			}
		}
	}
	if open != nil {
		// Never closed: what is left of the page is in it.
		open.text = body.String()
		p.fences = append(p.fences, *open)
	}
	return p
}

func fenceMark(bare string) string {
	for _, c := range []string{"`", "~"} {
		if m := bare[:len(bare)-len(strings.TrimLeft(bare, c))]; len(m) >= 3 {
			return m
		}
	}
	return ""
}

// anchor is the fragment of a heading as code hosts make it: lower case,
// without punctuation, dashes for spaces, numbered when repeated.
func (p *page) anchor(title string) string {
	a := strings.ToLower(strings.ReplaceAll(title, "`", ""))
	a = strings.ReplaceAll(notInAnchor.ReplaceAllString(a, ""), " ", "-")
	for i, base := 1, a; slices.Contains(p.anchors, a); i++ {
		a = base + "-" + string(rune('0'+i%10))
	}
	return a
}

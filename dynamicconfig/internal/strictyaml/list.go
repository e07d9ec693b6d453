// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// List is a long list of a text, cut into Pieces. Each of them is read by itself.
type List struct {
	// Root is the tree of the text with an empty list.
	Root ast.Node

	Pieces []Piece

	// Rest is the line at which the list ends before it should: what stands there is no item. 0 if all is well.
	Rest int

	items items
}

// Piece is some items in a row.
type Piece struct {
	Text  string
	Line  int // of the line before it
	Items int // about how many
	Known int // the caller's number of the text, or -1
}

// maxItems bounds the items of a Piece that is not known: a change of one of them has all of them read again.
const maxItems = 64

// Large cuts a text that is mostly one long list, which can be read several times as fast as Parse reads it: List.Read
// understands the common forms of items itself, and has the YAML library read the others one by one.
//
// list is the name of the field at the top that has the list. The tree is that of the text
// with an empty list, which has at most most bytes. known is given the text from the begin of an item on. If that begins
// with a whole Piece of another text, it may return how many bytes this has, and a number for it; else 0.
// ok is whether the text has this form at all.
func (f *File) Large(list string, most int, known func(rest string) (which, n int)) (l *List, ok bool) {
	head := "\n" + list + ":\n"
	begin := 0
	if !strings.HasPrefix(f.Text, head[1:]) {
		if begin = strings.Index(f.Text, head) + 1; begin == 0 {
			return nil, false
		}
	}
	begin += len(head) - 1
	c := &cutter{items: items{text: f.Text, dash: -1}, list: new(List), line: strings.Count(f.Text[:begin], "\n")}
	before := c.line
	end, ok := c.cut(begin, known)
	top, rest := f.Text[:begin-1]+" []\n", f.Text[end:]
	if !ok || strings.HasPrefix(rest, head[1:]) || strings.Contains(rest, head) || len(top)+len(rest) > most || !plainText(top) || !plainText(rest) {
		return nil, false
	}
	small := NewFile([]byte(top+rest), f.dialect)
	root := small.Parse()
	if root == nil || len(small.anchors) > 0 {
		return nil, false
	}
	shiftLines(root, before, c.line-before)
	c.list.Root, c.list.items = root, items{dash: max(c.dash, 0)}
	return c.list, true
}

// Read yields the items of a Piece, whose text may be a copy. yield may not keep them. It returns the line of an item
// that it does not understand, or 0.
func (l *List) Read(p Piece, yield func(item ast.Node)) (line int) {
	x := &l.items
	x.text, x.at, x.line = p.Text, 0, p.Line+1
	for {
		n, ok := x.next()
		if !ok {
			return x.line
		}
		if n == nil {
			return 0
		}
		yield(n)
	}
}

// cutter cuts a list into Pieces.
type cutter struct {
	items // for the text, and the column of the dashes

	list *List
	line int // of the line before what is cut next
}

// cut cuts the list that begins at a place, and returns where it ends. ok is false if it is not plain.
func (c *cutter) cut(begin int, known func(rest string) (which, n int)) (end int, ok bool) {
	at := begin
	for at < len(c.text) && inList(c.text, at) && c.blank(at) {
		at = lineEnd(c.text, at)
	}
	ok = c.pass(begin, at)
	var begins []int // of items that are not known
	for ok && c.item(at) {
		if which, n := known(c.text[at:]); n > 0 && c.ends(at+n) {
			ok = c.unknown(begins, at)
			begins = begins[:0]
			c.add(at, at+n, Piece{Known: which})
			at += n
			continue
		}
		begins = append(begins, at)
		for at = lineEnd(c.text, at); at < len(c.text) && inList(c.text, at) && c.inside(at); at = lineEnd(c.text, at) {
		}
	}
	if ok = ok && c.unknown(begins, at); !ok {
		return 0, false
	}
	begin = at
	for at < len(c.text) && inList(c.text, at) {
		at = lineEnd(c.text, at)
	}
	if at > begin || len(c.list.Pieces) == 0 {
		c.list.Rest = c.line + 1
	}
	return at, c.pass(begin, at)
}

// pass goes over lines, and reports whether they are plain.
func (c *cutter) pass(begin, end int) bool {
	c.line += strings.Count(c.text[begin:end], "\n")
	return plainText(c.text[begin:end])
}

// blank reports whether a line has no more than a comment.
func (c *cutter) blank(at int) bool {
	_, blank := c.indent(at)
	return blank
}

// inside reports whether a line belongs to the item that has begun.
func (c *cutter) inside(at int) bool {
	indent, blank := c.indent(at)
	return blank || indent > c.dash
}

// item reports whether an item begins in a line.
func (c *cutter) item(at int) bool {
	if at == len(c.text) || !inList(c.text, at) {
		return false
	}
	indent, blank := c.indent(at)
	if blank || c.text[at+indent] != '-' || c.dash >= 0 && indent != c.dash {
		return false
	}
	c.dash = indent
	return true
}

// ends reports whether an item may end at a place.
func (c *cutter) ends(at int) bool {
	return at == len(c.text) || c.text[at-1] == '\n' && (!inList(c.text, at) || c.item(at))
}

// add adds a Piece.
func (c *cutter) add(begin, end int, p Piece) {
	p.Text, p.Line = c.text[begin:end], c.line
	c.list.Pieces = append(c.list.Pieces, p)
	c.line += strings.Count(p.Text, "\n")
}

// unknown adds Pieces of items that are not known, which end at a place. It returns false if these are not plain.
func (c *cutter) unknown(begins []int, end int) (ok bool) {
	if len(begins) == 0 {
		return true
	}
	if !plainText(c.text[begins[0]:end]) {
		return false
	}
	pieces := (len(begins) + maxItems - 1) / maxItems
	for i := range pieces {
		from, to, until := i*len(begins)/pieces, (i+1)*len(begins)/pieces, end
		if to < len(begins) {
			until = begins[to]
		}
		c.add(begins[from], until, Piece{Items: to - from, Known: -1})
	}
	return true
}

// shiftLines moves the tokens of a tree that are below a line further down.
func shiftLines(root ast.Node, below, by int) {
	t := root.GetToken()
	for t.Prev != nil {
		t = t.Prev
	}
	for ; t != nil; t = t.Next {
		if t.Position.Line > below {
			t.Position.Line += by
		}
	}
}

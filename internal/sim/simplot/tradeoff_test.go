// SPDX-License-Identifier: Apache-2.0

package simplot

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var twoTradeoffs = []Tradeoff{
	{"sticky", []Point{{"elastic", 0.9, 3.6}, {"auto", 1.4, 0.2}}},
	{"clients", []Point{{"elastic", 3.7, 14.2}, {"auto", 1000, 100}}},
}

func TestTradeoffsSayWhatTheyShow(t *testing.T) {
	var svg, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&svg, &again} {
		if err := WriteTradeoffs(w, "svg", "A title", "and a note", twoTradeoffs); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("two pictures of the same tradeoffs differ")
	}
	for _, text := range []string{"A title", "and a note", "sticky", "clients", "elastic", "auto", "calls per host and second", "false rejects"} {
		if !strings.Contains(svg.String(), text) {
			t.Errorf("the picture does not say %q", text)
		}
	}
}

// A point with more calls is farther right, and one with more rejects farther up.
func TestPointsAreWhereTheirFiguresAre(t *testing.T) {
	circles := func(points ...Point) (found [][2]float64) {
		var svg bytes.Buffer
		if err := WriteTradeoffs(&svg, "svg", "", "", []Tradeoff{{"one", points}}); err != nil {
			t.Fatal(err)
		}
		arcs := regexp.MustCompile(`<path d="M([\d.]+),([\d.]+)A`).FindAllStringSubmatch(svg.String(), -1)
		if len(arcs) != 2*len(points) {
			t.Fatalf("%d circles for %d points and their legend", len(arcs), len(points))
		}
		for _, arc := range arcs[len(points):] {
			x, _ := strconv.ParseFloat(arc[1], 64)
			y, _ := strconv.ParseFloat(arc[2], 64)
			found = append(found, [2]float64{x, y})
		}
		return found
	}
	at := circles(Point{"a", 1, 1}, Point{"b", 10, 1}, Point{"c", 1, 10}, Point{"d", 100, 0}, Point{"e", 1e6, 0})
	if !(at[1][0] > at[0][0] && at[1][1] == at[0][1]) {
		t.Errorf("ten times the calls: %v and %v", at[0], at[1])
	}
	if !(at[2][0] == at[0][0] && at[2][1] > at[0][1]) { // y points up within the page's group
		t.Errorf("ten times the rejects: %v and %v", at[0], at[2])
	}
	if at[4] != at[3] {
		t.Errorf("beyond the scale: %v, want %v", at[4], at[3])
	}
}

func TestTradeoffsAreSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.png")
	if err := SaveTradeoffs(file, "title", "note", twoTradeoffs); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	if err := SaveTradeoffs("x.pdf", "title", "note", twoTradeoffs); err == nil {
		t.Error("a PDF was saved")
	}
	if err := WriteTradeoffs(&bytes.Buffer{}, "svg", "title", "note", nil); err == nil {
		t.Error("nothing was drawn")
	}
}

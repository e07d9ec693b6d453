// SPDX-License-Identifier: Apache-2.0

package simplot

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/world"
	"github.com/headgate/headgate/internal/testrun"
)

// results of a scenario under two algorithms.
func results(t *testing.T, name string, weights bool) (*scenario.Scenario, []*measure.Result) {
	t.Helper()
	sc, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []*measure.Result
	for _, a := range []string{"even", "request-weighted"} {
		r, err := world.Options{Algorithm: a, Seed: 1, Weights: weights}.Run(t.Context(), sc)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return sc, all
}

func TestSameResultsSameBytes(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	for _, format := range []string{"svg", "png"} {
		var pictures [2]bytes.Buffer
		sc, r := results(t, "recorded", true)
		for i := range pictures {
			if err := Write(&pictures[i], format, sc, r); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(pictures[0].Bytes(), pictures[1].Bytes()) {
			t.Errorf("two pictures as %s differ", format)
		}
	}
}

func TestAPictureSaysWhatItShows(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	sc, r := results(t, "flash-crowd", true)
	var svg bytes.Buffer
	if err := Write(&svg, "svg", sc, r); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"flash-crowd", "the crowd comes", "offered", "one perfect bucket", "admitted", "limit", "even:", "request-weighted:", "others", "offered goes up to"} {
		if !strings.Contains(svg.String(), text) {
			t.Errorf("the picture does not say %q", text)
		}
	}
}

func TestScenariosOfAllKindsCanBeDrawn(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	names := []string{"recorded", "near-zero-traffic", "ring-join", "doorman-3", "cron", "limit-change"}
	if testing.Short() {
		names = names[:2]
	}
	for _, name := range names {
		sc, r := results(t, name, name != "cron")
		file := filepath.Join(t.TempDir(), "x.PNG")
		if err := Save(file, sc, r); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if picture, err := png.Decode(bytes.NewReader(data)); err != nil || picture.Bounds().Dx() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	if err := CheckFile("a.pdf"); err == nil || !strings.Contains(err.Error(), "neither .svg nor .png") {
		t.Errorf("err = %v", err)
	}
	sc, r := results(t, "recorded", false)
	if err := Save("x.pdf", sc, r); err == nil {
		t.Error("a PDF was saved")
	}
	if err := Write(&bytes.Buffer{}, "gif", sc, r); err == nil {
		t.Error("a GIF was written")
	}
	if err := Write(&bytes.Buffer{}, "svg", sc, nil); err == nil {
		t.Error("nothing was drawn")
	}
	if err := Save(filepath.Join(t.TempDir(), "no", "x.png"), sc, r); err == nil {
		t.Error("a file in no folder was saved")
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, top := range []float64{0.3, 1.05, 3.15, 7, 10, 99, 100, 1080, 4500, 21000, 1e7} {
		ticks := amountTicks{}.Ticks(0, top)
		if len(ticks) < 3 || len(ticks) > 8 {
			t.Errorf("%d ticks up to %v", len(ticks), top)
		}
	}
	for _, end := range []float64{10, 60, 90, 300, 3600, 86400, 7 * 86400} {
		ticks := timeTicks{}.Ticks(0, end)
		if len(ticks) < 5 || len(ticks) > 14 || ticks[0].Label != "0" {
			t.Errorf("%d ticks up to %v s", len(ticks), end)
		}
	}
}

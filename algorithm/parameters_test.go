// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParametersReachElastic(t *testing.T) {
	a, err := Builtin().Build(NameElastic, map[string]string{"overcommit": "0", "horizon": "300ms", "repay": "5s"})
	if err != nil {
		t.Fatal(err)
	}
	want := Elastic{Overcommit: least, Horizon: 300 * time.Millisecond, Repay: 5 * time.Second}
	if a.Elastic != want {
		t.Errorf("got %+v, want %+v", a.Elastic, want)
	}
	if n := reflect.TypeFor[Elastic]().NumField(); n != 3 {
		t.Errorf("Elastic has %d fields; name the new one in With, and here", n)
	}
	if a, err := Builtin().Build(NameElastic, nil); a.Elastic != (Elastic{}) || err != nil {
		t.Errorf("without parameters: %+v, %v", a, err)
	}
}

func TestBadParametersAreRefusedWithWhatThereIs(t *testing.T) {
	for _, tt := range []struct {
		algorithm  string
		parameters map[string]string
		says       []string
	}{
		{NameElastic, map[string]string{"overcomit": "2"}, []string{`"overcomit"`, "use overcommit, horizon or repay"}},
		{NameElastic, map[string]string{"overcommit": "1.5"}, []string{"overcommit", `"1.5"`, "from 0 to 1"}},
		{NameElastic, map[string]string{"overcommit": "NaN"}, []string{`"NaN"`}},
		{NameElastic, map[string]string{"overcommit": "+Inf"}, []string{`"+Inf"`}},
		{NameElastic, map[string]string{"horizon": "200"}, []string{"horizon", "such as 200ms"}},
		{NameElastic, map[string]string{"repay": "-3s"}, []string{"repay", "from 1ms"}},
		{NameElastic, map[string]string{"repay": "0s", "overcommit": "2"}, []string{"repay", "overcommit"}},
		{NameElastic, map[string]string{strings.Repeat("x", 1000): "1"}, []string{"xxx…"}},
		{NameAuto, map[string]string{"horizon": "1s"}, []string{`it takes none: remove "horizon"`}},
		{"average/fair-share", map[string]string{"horizon": "1s"}, []string{`it takes none: remove "horizon"`}},
		{NameFairShare, map[string]string{"horizon": "1s"}, []string{`it takes none: remove "horizon"`}},
	} {
		a, err := Builtin().Build(tt.algorithm, tt.parameters)
		if a.Account != "" || !errors.Is(err, ErrParameter) {
			t.Errorf("%v: %+v, %v", tt.parameters, a, err)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v: the error does not say %q: %v", tt.parameters, s, err)
			}
		}
		if len(err.Error()) > 500 {
			t.Errorf("%v: the error has %d bytes", tt.parameters, len(err.Error()))
		}
	}
	if _, err := Builtin().Build("no-such", map[string]string{"a": "b"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("no such algorithm: %v", err)
	}
}

func FuzzParameters(f *testing.F) {
	for _, name := range []string{"overcommit", "chunk", "horizon", "repay", "nothing"} {
		for _, value := range []string{"1", "0", "-1", "NaN", "1e309", "0x1p-2", "200ms", "9999999h", ""} {
			f.Add(name, value)
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		a, err := Elastic{}.With(map[string]string{name: value})
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("%v, %v", a, err)
			}
			return
		}
		for _, x := range reflect.ValueOf(a).Fields() {
			switch {
			case x.CanFloat() && !(x.Float() >= 0 && !math.IsInf(x.Float(), 0)):
				t.Fatalf("%q: %q is taken as %v", name, value, x)
			case x.CanInt() && x.Int() < 0:
				t.Fatalf("%q: %q is taken as %v", name, value, x)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"encoding"
	"testing"
)

func TestNamesRoundTrip(t *testing.T) {
	for m := ModeDisabled; m <= ModeNew; m++ {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
		roundTrip(t, m, new(Mode))
	}
	for f := FallbackEven; f <= FallbackSafe; f++ {
		if got, err := ParseFallback(f.String()); got != f || err != nil {
			t.Errorf("ParseFallback(%q) = %v, %v", f, got, err)
		}
		roundTrip(t, f, new(Fallback))
	}
	if got := Mode(7).String() + Fallback(7).String() + Unmatched(7).String() + UnmatchedDeny.String(); got != "mode(7)fallback(7)unmatched(7)deny" {
		t.Error(got)
	}
	if _, err := Mode(7).MarshalText(); err == nil {
		t.Error("a mode that does not exist is marshalled")
	}
	if _, err := Fallback(7).MarshalText(); err == nil {
		t.Error("a fallback that does not exist is marshalled")
	}
	m := ModeNew
	if err := m.UnmarshalText([]byte("newer")); err == nil || m != ModeNew {
		t.Errorf("UnmarshalText = %v, mode is %v", err, m)
	}
}

func roundTrip[T comparable, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, v T, to P) {
	t.Helper()
	text, err := any(v).(encoding.TextMarshaler).MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := to.UnmarshalText(text); err != nil || *to != v {
		t.Errorf("%q became %v, %v", text, *to, err)
	}
}

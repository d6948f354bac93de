package layout

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
)

func TestMarkIsAsDocumented(t *testing.T) {
	t.Parallel()
	const resource = "orders <&> café"
	o := MarkObject{
		Resource: resource, Former: []string{"a", "", "b"},
		Mark:  guard.Mark{Issuer: "k3v9", Generation: 3, Writer: 1<<53 + 1, Holder: "9f8c2ab1", Reader: 7},
		Nonce: Nonce{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	}
	want := golden(t, "mark.json")
	if got := o.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("mark object is\n%s, want\n%s", got, want)
	}
	if got, err := ParseMark(want, resource); err != nil || !reflect.DeepEqual(got, o) {
		t.Errorf("read as %+v, %v", got, err)
	}
	if key := MarkKey("orders"); key != ".fence/marks/1c168adb00d208e42f93314529f1fa9c0427eb63233ceda95a5db52b7012a719" || !Reserved(key) {
		t.Errorf("key of the mark is %q", key)
	}
	for key, want := range map[string]bool{
		".fence/x": true, "/.fence/x": true, "//.fence/x": true, ".//.fence/x": true, "a/../.fence/x": true, "../.fence/x": true,
		".fence/": true, "/.fence/": true, ".fence/a/../x": true, ".fence/../x": true,
		".fence": false, ".fenced/x": false, "a/.fence/x": false, "": false, "/": false, "a/../b": false,
	} {
		if Reserved(key) != want {
			t.Errorf("%q: reserved is %v", key, !want)
		}
	}
}

func TestParseMarkRefuses(t *testing.T) {
	t.Parallel()
	text := string(MarkObject{Resource: "orders", Mark: guard.Mark{Issuer: "i", Writer: 33, Holder: "a"}}.Bytes())
	for name, change := range map[string][2]string{
		"another version":          {`"v":1`, `"v":2`},
		"another resource":         {`"orders"`, `"stock"`},
		"an unknown field":         {`"v":1`, `"v":1,"x":1`},
		"a number that is one":     {`"33"`, `33`},
		"a number with a sign":     {`"33"`, `"+33"`},
		"a negative number":        {`"33"`, `"-33"`},
		"a number with a zero":     {`"33"`, `"033"`},
		"a number above 2^63":      {`"33"`, `"9223372036854775808"`},
		"a generation above 2^32":  {`"generation":"0"`, `"generation":"4294967296"`},
		"no number":                {`"33"`, `""`},
		"a holder that is none":    {`"a"`, `"a b"`},
		"an issuer that is none":   {`"i"`, `"é"`},
		"a short nonce":            {strings.Repeat("0", 32), "00"},
		"a long nonce":             {strings.Repeat("0", 32), strings.Repeat("0", 34)},
		"a nonce that is not hex":  {strings.Repeat("0", 32), strings.Repeat("x", 32)},
		"a mark that nobody set":   {`"33"`, `"0"`},
		"something behind it":      {"\n", "{}"},
		"an object that is cut":    {"}\n", ""},
		"an object that is a list": {text, "[]"},
		"nothing":                  {text, ""},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if changed == text {
			t.Fatalf("%s: nothing changed", name)
		}
		if o, err := ParseMark([]byte(changed), "orders"); !errors.Is(err, ErrBadMark) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add(golden(f, "mark.json"), "orders <&> café")
	f.Add(MarkObject{Resource: "r", Mark: guard.Mark{Generation: math.MaxUint32, Writer: math.MaxInt64}}.Bytes(), "r")
	f.Fuzz(func(t *testing.T, data []byte, resource string) {
		o, err := ParseMark(data, resource)
		if err != nil {
			if !errors.Is(err, ErrBadMark) {
				t.Error(err)
			}
			return
		}
		again, err := ParseMark(o.Bytes(), resource)
		if len(o.Former) == 0 {
			o.Former = nil // empty and none are printed alike
		}
		if err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%+v is printed as %s, which is read as %+v, %v", o, o.Bytes(), again, err)
		}
	})
}

func play(t *testing.T, given []guardtest.Step) MarkObject {
	t.Helper()
	o := MarkObject{Resource: guardtest.Resource}
	for _, step := range given {
		var err error
		if step.Adopt {
			o, err = o.Adopt(step.Issuer)
		} else {
			o, _, err = o.Claim(step.Token)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestClaimsKeepTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range guardtest.Cases() {
		before := play(t, c.Given)
		after, changed, err := before.Claim(c.Token)
		if !errors.Is(err, c.Claim) || after.Mark != c.After || changed != (c.After != c.Before) {
			t.Errorf("%s: %+v, %v, %v", c.Name, after.Mark, changed, err)
		}
		if changed && after.Nonce == before.Nonce {
			t.Errorf("%s: the same nonce again", c.Name)
		}
	}
	for _, c := range guardtest.AdoptCases() {
		before := play(t, c.Given)
		after, err := before.Adopt(c.Issuer)
		if (err != nil) != c.Refused || after.Mark != c.After {
			t.Errorf("%s: %+v, %v", c.Name, after.Mark, err)
		}
	}
}

package serveconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Bytes is a number of bytes; its text may have a unit, as in 64KiB.
type Bytes int

// UnmarshalText reads a whole number with B, KiB, MiB, GiB or nothing behind it.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for suffix, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if before, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = before, size
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(number, "B")), 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt/unit {
		return errors.New("is not a number of bytes above 0, as in 64KiB")
	}
	*b = Bytes(n * unit)
	return nil
}

// Mode are permissions of a file.
type Mode fs.FileMode

// UnmarshalText reads them in octal.
func (m *Mode) UnmarshalText(text []byte) error {
	bits, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0o"), 8, 32)
	if err != nil || bits > 0o777 {
		return errors.New("are not permissions in octal, as in 0770")
	}
	*m = Mode(bits)
	return nil
}

// Secret is text that is shown to nobody: printed, in whatever form, it is ***.
// A conversion to string gives what it is.
type Secret string

const hidden = "***"

// String is that of fmt.Stringer.
func (Secret) String() string { return hidden }

// GoString is that of fmt.GoStringer.
func (Secret) GoString() string { return hidden }

// MarshalText is that of encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalText takes any text but one with a control character in it, like a
// line's end that was read along with it.
func (s *Secret) UnmarshalText(text []byte) error {
	if bytes.ContainsFunc(text, unicode.IsControl) {
		return errors.New("has a control character in it, perhaps the end of a line")
	}
	*s = Secret(text)
	return nil
}

// textual is what reads itself from text.
type textual interface{ UnmarshalText(text []byte) error }

// set reads text into v, as the field's tags want it. The error continues a
// sentence that begins with the text.
func set(v reflect.Value, tag reflect.StructTag, text string) error {
	switch at := v.Addr().Interface().(type) {
	case *Bytes:
		return setBytes(at, tag, text)
	case textual:
		return at.UnmarshalText([]byte(text))
	case *string:
		return setString(at, tag, text)
	case *bool:
		if text != "true" && text != "false" {
			return errors.New("is neither true nor false")
		}
		*at = text == "true"
	case *int:
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 0:
			return errors.New("is not a whole number, 0 or above")
		case n == 0 && tag.Get("zero") == "":
			return errors.New("is not above 0")
		}
		*at = n
	case *time.Duration:
		return setDuration(at, tag, text)
	default:
		panic(fmt.Sprintf("serveconfig: no values of type %T", at))
	}
	return nil
}

func setBytes(at *Bytes, tag reflect.StructTag, text string) error {
	var given, least Bytes
	if err := given.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if words := tag.Get("least"); words != "" {
		if err := least.UnmarshalText([]byte(words)); err != nil {
			panic(fmt.Sprintf("serveconfig: least of %q: %v", words, err))
		}
		if given < least {
			return fmt.Errorf("is below %s", words)
		}
	}
	*at = given
	return nil
}

func setString(at *string, tag reflect.StructTag, text string) error {
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 {
		if !slices.Contains(words, text) {
			return fmt.Errorf("is none of %s", strings.Join(words, ", "))
		}
	}
	if strings.ContainsRune(text, 0) {
		return errors.New("has a zero byte in it")
	}
	*at = text
	return nil
}

func setDuration(at *time.Duration, tag reflect.StructTag, text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("is not a duration with a unit, as in 500ms, 10s or 5m")
	case d < 0:
		return errors.New("is below 0")
	case d == 0 && tag.Get("zero") == "":
		return errors.New("is not above 0")
	}
	*at = d
	return nil
}

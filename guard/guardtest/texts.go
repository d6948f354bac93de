package guardtest

import (
	"math"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Text is one row of the text form.
type Text struct {
	// Name is unique in the table.
	Name string
	// Text is what is read: UTF-8 without NUL, so that every carrier can send it.
	Text string
	// Tokens are what Text says and what prints as Text; nil if it is malformed.
	Tokens []guard.Token
}

// Texts returns the table of the text form of one token and of several.
func Texts() []Text {
	rows := append(wellFormed(), wellFormedLists()...)
	for _, bad := range slices.Concat(malformedShapes(), malformedNumbers(), malformedIDs(), malformedResources(), malformedLists()) {
		rows = append(rows, Text{Name: "malformed, " + bad[0], Text: bad[1]})
	}
	return rows
}

func wellFormed() []Text {
	one := func(name, text string, t guard.Token) Text {
		return Text{Name: name, Text: text, Tokens: []guard.Token{t}}
	}
	long := strings.Repeat("é", guard.MaxResourceLen/2) + "r" // 255 bytes
	return []Text{
		one("writer", "ft1:x:42:9f8c2ab1:k3v9:orders",
			guard.Token{Mode: guard.Exclusive, Number: 42, Holder: "9f8c2ab1", Issuer: "k3v9", Resource: "orders"}),
		one("reader", "ft1:s:42:a:i:orders", reader(42)),
		one("no holder", "ft1:x:42::i:orders", held(writer(42), "")),
		one("no issuer", "ft1:x:42:a::orders", issued(writer(42), "")),
		one("neither", "ft1:x:42:::orders", issued(held(writer(42), ""), "")),
		one("lowest number", "ft1:x:1:a:i:orders", writer(1)),
		one("highest number", "ft1:x:9223372036854775807:a:i:orders", writer(math.MaxInt64)),
		one("whole alphabet of an id",
			"ft1:x:42:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-0123456789:-_:orders",
			issued(held(writer(42), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-0123456789"), "-_")),
		one("unreserved characters", "ft1:x:42:a:i:AZaz09._~/-", named(writer(42), "AZaz09._~/-")),
		one("reserved characters",
			"ft1:x:42:a:i:%20%21%22%23%24%25%26%27%28%29%2A%2B%2C%3A%3B%3C%3D%3E%3F%40%5B%5C%5D%5E%60%7B%7C%7D",
			named(writer(42), ` !"#$%&'()*+,:;<=>?@[\]^`+"`{|}")),
		one("resource that looks encoded", "ft1:x:42:a:i:%2541", named(writer(42), "%41")),
		one("resource of one byte", "ft1:x:42:a:i:r", named(writer(42), "r")),
		one("resource beyond ASCII", "ft1:x:42:a:i:caf%C3%A9/%E2%82%AC/%F0%9F%94%92", named(writer(42), "café/€/🔒")),
		one("first letter after the C1 controls", "ft1:x:42:a:i:%C2%A0", named(writer(42), "\u00a0")),
		one("highest code point", "ft1:x:42:a:i:%F4%8F%BF%BF", named(writer(42), "\U0010ffff")),
		one("resource of 255 bytes", "ft1:x:42:a:i:"+strings.Repeat("%C3%A9", guard.MaxResourceLen/2)+"r", named(writer(42), long)),
		one("longest text", longestText(),
			guard.Token{
				Mode: guard.Exclusive, Number: math.MaxInt64, Holder: strings.Repeat("h", guard.MaxIDLen),
				Issuer: strings.Repeat("i", guard.MaxIDLen), Resource: strings.Repeat(" ", guard.MaxResourceLen),
			}),
	}
}

func longestText() string {
	return "ft1:x:9223372036854775807:" + strings.Repeat("h", guard.MaxIDLen) + ":" +
		strings.Repeat("i", guard.MaxIDLen) + ":" + strings.Repeat("%20", guard.MaxResourceLen)
}

func wellFormedLists() []Text {
	return []Text{
		{
			"list of two", "ft1:x:42:a:i:orders,ft1:x:7:a:i:stock",
			[]guard.Token{writer(42), named(writer(7), "stock")},
		},
		{
			"list of both modes", "ft1:x:42:a:i:orders,ft1:s:7:a:i:stock",
			[]guard.Token{writer(42), named(reader(7), "stock")},
		},
		{
			"list whose resources differ by case", "ft1:x:42:a:i:orders,ft1:x:42:a:i:Orders",
			[]guard.Token{writer(42), named(writer(42), "Orders")},
		},
		{
			"list with a comma in a resource", "ft1:x:42:a:i:a%2Cb,ft1:x:42:a:i:a,ft1:x:42:a:i:b",
			[]guard.Token{named(writer(42), "a,b"), named(writer(42), "a"), named(writer(42), "b")},
		},
	}
}

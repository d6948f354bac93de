package guardtest

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// good is the text that most rows spoil.
const good = "ft1:x:42:a:i:orders"

// nameAndText is a row whose text is malformed.
type nameAndText [2]string

func malformedShapes() []nameAndText {
	return []nameAndText{
		{"one space", " "},
		{"not a token", "orders"},
		{"number alone", "42"},
		{"field missing", "ft1:x:42:a:orders"},
		{"field too many", good + ":more"},
		{"no version", "x:42:a:i:orders"},
		{"another version", "ft2:x:42:a:i:orders"},
		{"version with a zero", "ft01:x:42:a:i:orders"},
		{"upper-case version", "FT1:x:42:a:i:orders"},
		{"leading space", " " + good},
		{"trailing space", good + " "},
		{"trailing newline", good + "\n"},
		{"trailing tab", good + "\t"},
		{"trailing semicolon", good + ";"},
		{"trailing quote", good + "'"},
		{"quoted", `"` + good + `"`},
		{"mode missing", "ft1::42:a:i:orders"},
		{"unknown mode", "ft1:w:42:a:i:orders"},
		{"upper-case mode", "ft1:X:42:a:i:orders"},
		{"two modes", "ft1:xs:42:a:i:orders"},
		{"mode beyond ASCII", "ft1:ẋ:42:a:i:orders"},
	}
}

func malformedNumbers() []nameAndText {
	return []nameAndText{
		{"number missing", "ft1:x::a:i:orders"},
		{"number 0", "ft1:x:0:a:i:orders"},
		{"number negative", "ft1:x:-42:a:i:orders"},
		{"number negative 0", "ft1:x:-0:a:i:orders"},
		{"number with plus", "ft1:x:+42:a:i:orders"},
		{"number with leading zero", "ft1:x:042:a:i:orders"},
		{"number with leading space", "ft1:x: 42:a:i:orders"},
		{"number with trailing space", "ft1:x:42 :a:i:orders"},
		{"number with underscore", "ft1:x:4_2:a:i:orders"},
		{"number with point", "ft1:x:42.0:a:i:orders"},
		{"number with exponent", "ft1:x:4e2:a:i:orders"},
		{"number in hex", "ft1:x:0x42:a:i:orders"},
		{"number in hex without prefix", "ft1:x:2A:a:i:orders"},
		{"number in other digits", "ft1:x:٤٢:a:i:orders"},
		{"number 2^63", "ft1:x:9223372036854775808:a:i:orders"},
		{"number 2^64+42", "ft1:x:18446744073709551658:a:i:orders"},
		{"number of 40 digits", "ft1:x:" + strings.Repeat("9", 40) + ":a:i:orders"},
	}
}

func malformedIDs() []nameAndText {
	return []nameAndText{
		{"holder with a space", "ft1:x:42:a b:i:orders"},
		{"holder with a dot", "ft1:x:42:a.b:i:orders"},
		{"holder with an encoding", "ft1:x:42:%61:i:orders"},
		{"holder beyond ASCII", "ft1:x:42:ä:i:orders"},
		{"holder of 65 bytes", "ft1:x:42:" + strings.Repeat("h", guard.MaxIDLen+1) + ":i:orders"},
		{"issuer with a slash", "ft1:x:42:a:i/j:orders"},
		{"issuer of 65 bytes", "ft1:x:42:a:" + strings.Repeat("i", guard.MaxIDLen+1) + ":orders"},
	}
}

func malformedResources() []nameAndText {
	return []nameAndText{
		{"resource missing", "ft1:x:42:a:i:"},
		{"resource of 256 bytes", "ft1:x:42:a:i:" + strings.Repeat("r", guard.MaxResourceLen+1)},
		{"resource of 256 bytes, encoded", "ft1:x:42:a:i:" + strings.Repeat("%C3%A9", (guard.MaxResourceLen+1)/2)},
		{"longer than the longest", longestText() + "r"},
		{"much longer than the longest", "ft1:x:42:a:i:" + strings.Repeat("r", 1<<16)},
		{"resource with a space", "ft1:x:42:a:i:or ders"},
		{"resource with a plus for a space", "ft1:x:42:a:i:or+ders"},
		{"resource beyond ASCII, not encoded", "ft1:x:42:a:i:café"},
		{"resource with a colon, not encoded", "ft1:x:42:a:i:or:ders"},
		{"resource with a quote, not encoded", "ft1:x:42:a:i:or'ders"},
		{"resource with a percent, not encoded", "ft1:x:42:a:i:100%"},
		{"encoding cut off", "ft1:x:42:a:i:or%2"},
		{"encoding cut off at its start", "ft1:x:42:a:i:or%"},
		{"encoding not hex", "ft1:x:42:a:i:or%2Gders"},
		{"encoding with a sign", "ft1:x:42:a:i:or%+2ders"},
		{"encoding in lower case", "ft1:x:42:a:i:caf%c3%a9"},
		{"encoding with a lower-case second digit", "ft1:x:42:a:i:or%2aders"},
		{"encoding half in lower case", "ft1:x:42:a:i:caf%C3%a9"},
		{"encoded letter", "ft1:x:42:a:i:%6Frders"},
		{"encoded digit", "ft1:x:42:a:i:orders%31"},
		{"encoded slash", "ft1:x:42:a:i:or%2Fders"},
		{"encoded tilde", "ft1:x:42:a:i:or%7Eders"},
		{"encoded hyphen", "ft1:x:42:a:i:or%2Dders"},
		{"encoded dot", "ft1:x:42:a:i:or%2Eders"},
		{"encoded underscore", "ft1:x:42:a:i:or%5Fders"},
		{"encoded NUL", "ft1:x:42:a:i:or%00ders"},
		{"encoded newline", "ft1:x:42:a:i:orders%0A"},
		{"encoded unit separator", "ft1:x:42:a:i:or%1Fders"},
		{"encoded DEL", "ft1:x:42:a:i:or%7Fders"},
		{"encoded first C1 control", "ft1:x:42:a:i:or%C2%80ders"},
		{"encoded last C1 control", "ft1:x:42:a:i:or%C2%9Fders"},
		{"not UTF-8, lone byte", "ft1:x:42:a:i:or%FFders"},
		{"not UTF-8, cut off", "ft1:x:42:a:i:orders%C3"},
		{"not UTF-8, overlong", "ft1:x:42:a:i:or%C0%AFders"},
		{"not UTF-8, surrogate", "ft1:x:42:a:i:or%ED%A0%80ders"},
		{"not UTF-8, above the last code point", "ft1:x:42:a:i:or%F4%90%80%80ders"},
		{"not UTF-8, Latin-1", "ft1:x:42:a:i:caf%E9"},
	}
}

func malformedLists() []nameAndText {
	return []nameAndText{
		{"list with a leading comma", "," + good},
		{"list with a trailing comma", good + ","},
		{"list with an empty part", good + ",,ft1:x:7:a:i:stock"},
		{"list of nothing", ","},
		{"list with a space", good + ", ft1:x:7:a:i:stock"},
		{"list joined by semicolons", good + ";ft1:x:7:a:i:stock"},
		{"list with one malformed", good + ",ft1:x:0:a:i:stock"},
		{"list with one token twice", good + "," + good},
		{"list with two tokens for a resource", good + ",ft1:x:43:b:i:orders"},
		{"list with both modes for a resource", good + ",ft1:s:42:a:i:orders"},
		{"list with a resource again at the end", good + ",ft1:x:7:a:i:stock," + "ft1:x:43:a:i:orders"},
	}
}

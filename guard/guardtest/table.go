package guardtest

import (
	"math"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Cases returns the table of the rule.
func Cases() []Case {
	return slices.Concat(untouched(), malformed(), writers(), readersAndWriters(), issuers())
}

func untouched() []Case {
	none := guard.Mark{}
	return []Case{
		fresh("untouched, writer", nil, none, writer(33), mark(33, 0)),
		fresh("untouched, reader", nil, none, reader(33), mark(0, 33)),
		fresh("untouched, lowest number", nil, none, writer(1), mark(1, 0)),
		fresh("untouched, highest number", nil, none, writer(math.MaxInt64), mark(math.MaxInt64, 0)),
		fresh("untouched, writer without holder and issuer", nil, none,
			issued(held(writer(33), ""), ""), guard.Mark{Writer: 33}),
		fresh("untouched, reader without holder and issuer", nil, none,
			issued(held(reader(33), ""), ""), guard.Mark{Reader: 33}),
		fresh("untouched, longest holder and issuer", nil, none,
			issued(held(writer(33), strings.Repeat("h", guard.MaxIDLen)), strings.Repeat("_", guard.MaxIDLen)),
			guard.Mark{Writer: 33, Holder: strings.Repeat("h", guard.MaxIDLen), Issuer: strings.Repeat("_", guard.MaxIDLen)}),
	}
}

func malformed() []Case {
	bad := func(name string, t guard.Token) Case {
		return refused("malformed, "+name, claims(writer(33)), mark(33, 0), t, guard.ErrMalformed)
	}
	return []Case{
		bad("zero token", guard.Token{}),
		bad("number 0", writer(0)),
		bad("number below 0", writer(-34)),
		bad("lowest number there is", writer(math.MinInt64)),
		bad("no mode", token(0, 34, "a")),
		bad("unknown mode", token('w', 34, "a")),
		bad("upper-case mode", token('X', 34, "a")),
		bad("holder with a colon", held(writer(34), "a:b")),
		bad("holder with a comma", held(writer(34), "a,b")),
		bad("holder with a space", held(writer(34), "a b")),
		bad("holder that is not ASCII", held(writer(34), "ä")),
		bad("holder of 65 bytes", held(writer(34), strings.Repeat("h", guard.MaxIDLen+1))),
		bad("issuer with a dot", issued(writer(34), "i.j")),
		bad("issuer of 65 bytes", issued(writer(34), strings.Repeat("i", guard.MaxIDLen+1))),
		bad("no resource", named(writer(34), "")),
		bad("resource of 256 bytes", named(writer(34), strings.Repeat("r", guard.MaxResourceLen+1))),
		bad("resource with a NUL", named(writer(34), "orders\x00")),
		bad("resource with a newline", named(writer(34), "orders\n")),
		bad("resource with a DEL", named(writer(34), "orders\x7f")),
		bad("resource with a C1 control", named(writer(34), "orders\u0085")),
		bad("resource that is not UTF-8", named(writer(34), "orders\xff")),
		bad("before foreign", issued(writer(0), "j")),
		bad("before duplicate", token('w', 33, "b")),
		bad("before stale", held(writer(32), "b:")),
		refused("malformed, untouched", nil, guard.Mark{}, writer(0), guard.ErrMalformed),
	}
}

func writers() []Case {
	w33 := claims(writer(33))
	unnamed := claims(held(writer(33), ""))
	return []Case{
		fresh("writer after writer, higher", w33, mark(33, 0), writer(34), mark(34, 0)),
		fresh("writer after writer, far higher", w33, mark(33, 0), writer(math.MaxInt64), mark(math.MaxInt64, 0)),
		fresh("writer after writer, another holder", w33, mark(33, 0), held(writer(34), "b"),
			guard.Mark{Issuer: "i", Writer: 34, Holder: "b"}),
		current("writer again", w33, mark(33, 0), writer(33)),
		current("writer without holder again", unnamed, guard.Mark{Issuer: "i", Writer: 33}, held(writer(33), "")),
		current("writer with the highest number again", claims(writer(math.MaxInt64)), mark(math.MaxInt64, 0), writer(math.MaxInt64)),
		refused("writer twice", w33, mark(33, 0), held(writer(33), "b"), guard.ErrDuplicate),
		refused("writer twice, holder differs by case", w33, mark(33, 0), held(writer(33), "A"), guard.ErrDuplicate),
		refused("writer twice, no holder against a named one", w33, mark(33, 0), held(writer(33), ""), guard.ErrDuplicate),
		refused("writer twice, a holder against none", unnamed, guard.Mark{Issuer: "i", Writer: 33}, writer(33), guard.ErrDuplicate),
		refused("writer after writer, lower", w33, mark(33, 0), writer(32), guard.ErrStale),
		refused("writer after writer, lower, another holder", w33, mark(33, 0), held(writer(32), "b"), guard.ErrStale),
		refused("writer after writer, superseded", claims(writer(33), writer(34)), mark(34, 0), writer(33), guard.ErrStale),
		refused("writer after the highest number", claims(writer(math.MaxInt64)), mark(math.MaxInt64, 0), writer(math.MaxInt64-1), guard.ErrStale),
	}
}

func readersAndWriters() []Case {
	w34 := claims(writer(34))
	r34 := claims(reader(34))
	w34r40 := claims(writer(34), reader(40))
	r40w41 := claims(reader(40), writer(41))
	w50r60 := claims(writer(50), reader(60), reader(55))
	return []Case{
		fresh("writer after reader, higher", r34, mark(0, 34), writer(35), mark(35, 34)),
		refused("writer after reader, equal", r34, mark(0, 34), writer(34), guard.ErrDuplicate),
		refused("writer after reader, lower", r34, mark(0, 34), writer(33), guard.ErrStale),

		fresh("reader after writer, higher", w34, mark(34, 0), reader(35), mark(34, 35)),
		refused("reader after writer, equal", w34, mark(34, 0), reader(34), guard.ErrDuplicate),
		refused("reader after writer, lower", w34, mark(34, 0), reader(33), guard.ErrStale),

		fresh("reader after reader, higher", r34, mark(0, 34), reader(35), mark(0, 35)),
		current("reader again", r34, mark(0, 34), reader(34)),
		current("reader again, another holder", r34, mark(0, 34), held(reader(34), "b")),
		current("reader after reader, lower", r34, mark(0, 34), held(reader(33), "b")),

		current("reader between writer and reader", w34r40, mark(34, 40), reader(36)),
		current("reader just above the writer", w34r40, mark(34, 40), reader(35)),
		current("reader of the mark", w34r40, mark(34, 40), reader(40)),
		fresh("reader above both", w34r40, mark(34, 40), reader(41), mark(34, 41)),
		refused("reader at the writer below a reader", w34r40, mark(34, 40), reader(34), guard.ErrDuplicate),
		refused("reader below both", w34r40, mark(34, 40), reader(33), guard.ErrStale),
		fresh("writer above both", w34r40, mark(34, 40), writer(41), mark(41, 40)),
		refused("writer at the reader", w34r40, mark(34, 40), writer(40), guard.ErrDuplicate),
		refused("writer between writer and reader", w34r40, mark(34, 40), writer(36), guard.ErrStale),
		refused("writer that a reader superseded", w34r40, mark(34, 40), writer(34), guard.ErrStale),
		refused("writer twice, superseded by a reader", w34r40, mark(34, 40), held(writer(34), "b"), guard.ErrDuplicate),

		current("writer above a reader again", r40w41, mark(41, 40), writer(41)),
		refused("reader that a writer superseded", r40w41, mark(41, 40), reader(40), guard.ErrStale),
		refused("writer at a superseded reader", r40w41, mark(41, 40), writer(40), guard.ErrDuplicate),
		refused("reader at the writer above a reader", r40w41, mark(41, 40), reader(41), guard.ErrDuplicate),
		fresh("reader after reader and writer", r40w41, mark(41, 40), reader(42), mark(41, 42)),

		current("readers in any order", w50r60, mark(50, 60), reader(55)),
		refused("readers in any order, writer between", w50r60, mark(50, 60), writer(55), guard.ErrStale),
	}
}

func issuers() []Case {
	w33 := claims(writer(33))
	none := claims(issued(writer(33), ""))
	adoptedAt := adopts(claims(writer(33), reader(40)), "j")
	reclaimed := append(slices.Clip(adoptedAt), claims(issued(writer(1), "j"))...)
	ofJ := func(t guard.Token) guard.Token { return issued(t, "j") }
	return []Case{
		refused("foreign, higher", w33, mark(33, 0), ofJ(writer(34)), guard.ErrForeign),
		refused("foreign, before duplicate", w33, mark(33, 0), ofJ(held(writer(33), "b")), guard.ErrForeign),
		refused("foreign, before stale", w33, mark(33, 0), ofJ(writer(32)), guard.ErrForeign),
		refused("foreign, reader", w33, mark(33, 0), ofJ(reader(34)), guard.ErrForeign),
		refused("foreign, to a reader", claims(reader(33)), mark(0, 33), ofJ(reader(34)), guard.ErrForeign),
		refused("foreign, differs by case", w33, mark(33, 0), issued(writer(34), "I"), guard.ErrForeign),
		refused("foreign, no issuer against a named one", w33, mark(33, 0), issued(writer(34), ""), guard.ErrForeign),
		refused("foreign, an issuer against none", none, guard.Mark{Writer: 33, Holder: "a"}, writer(34), guard.ErrForeign),
		current("no issuer again", none, guard.Mark{Writer: 33, Holder: "a"}, issued(writer(33), "")),

		refused("adopted, token of before", adoptedAt, adopted(1, "j"), writer(33), guard.ErrForeign),
		refused("adopted, higher token of before", adoptedAt, adopted(1, "j"), writer(99), guard.ErrForeign),
		fresh("adopted, numbers start again", adoptedAt, adopted(1, "j"), ofJ(writer(1)),
			guard.Mark{Issuer: "j", Generation: 1, Writer: 1, Holder: "a"}),
		fresh("adopted, same number and holder as before", adoptedAt, adopted(1, "j"), ofJ(writer(33)),
			guard.Mark{Issuer: "j", Generation: 1, Writer: 33, Holder: "a"}),
		fresh("adopted, reader", adoptedAt, adopted(1, "j"), ofJ(reader(40)),
			guard.Mark{Issuer: "j", Generation: 1, Reader: 40}),
		current("adopted, claimed again", reclaimed,
			guard.Mark{Issuer: "j", Generation: 1, Writer: 1, Holder: "a"}, ofJ(writer(1))),
		refused("adopted before anybody claimed", adopts(nil, "j"), adopted(1, "j"), writer(34), guard.ErrForeign),
		fresh("adopted before anybody claimed, its issuer", adopts(nil, "j"), adopted(1, "j"), ofJ(writer(34)),
			guard.Mark{Issuer: "j", Generation: 1, Writer: 34, Holder: "a"}),
		refused("adopted to no issuer", adopts(w33, ""), adopted(1, ""), writer(34), guard.ErrForeign),
		refused("adopted twice", adopts(w33, "j", "k"), adopted(2, "k"), ofJ(writer(34)), guard.ErrForeign),
		refused("adopted twice, first issuer", adopts(w33, "j", "k"), adopted(2, "k"), writer(34), guard.ErrForeign),
	}
}

// AdoptCases returns the table of adoptions.
func AdoptCases() []AdoptCase {
	w33 := claims(writer(33))
	return []AdoptCase{
		{Name: "untouched", Issuer: "i", After: adopted(1, "i")},
		{Name: "untouched, to no issuer", Issuer: "", After: adopted(1, "")},
		{Name: "claimed by a writer", Given: w33, Issuer: "j", After: adopted(1, "j")},
		{Name: "claimed by a reader", Given: claims(reader(33)), Issuer: "j", After: adopted(1, "j")},
		{Name: "to no issuer", Given: w33, Issuer: "", After: adopted(1, "")},
		{Name: "differs by case", Given: w33, Issuer: "I", After: adopted(1, "I")},
		{Name: "second time", Given: adopts(w33, "j"), Issuer: "k", After: adopted(2, "k")},
		{Name: "to its own issuer", Given: w33, Issuer: "i", Refused: true, After: mark(33, 0)},
		{
			Name: "to its own issuer, which is none", Given: claims(issued(writer(33), "")), Issuer: "",
			Refused: true, After: guard.Mark{Writer: 33, Holder: "a"},
		},
		{Name: "to the issuer that it was adopted to", Given: adopts(w33, "j"), Issuer: "j", Refused: true, After: adopted(1, "j")},
		{Name: "back to its first issuer", Given: adopts(w33, "j"), Issuer: "i", Refused: true, After: adopted(1, "j")},
		{Name: "back after two", Given: adopts(w33, "j", "k"), Issuer: "j", Refused: true, After: adopted(2, "k")},
		{Name: "to what is not an issuer", Given: w33, Issuer: "j k", Refused: true, After: mark(33, 0)},
	}
}

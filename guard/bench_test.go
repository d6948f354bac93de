package guard_test

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

var benchToken = guard.Token{
	Resource: "orders", Number: 42, Mode: guard.Exclusive, Holder: "9f8c2ab1d4e05f67a8b9c0", Issuer: "k3v9x0q2",
}

// BenchmarkAdmit is the figure: at most 20 ns, no allocation.
func BenchmarkAdmit(b *testing.B) {
	admitted, _ := guard.Admit(guard.Mark{}, benchToken)
	before, _ := guard.Admit(guard.Mark{}, guard.Token{Resource: "orders", Number: 41, Mode: guard.Exclusive, Holder: "b", Issuer: "k3v9x0q2"})
	reread := benchToken // equal, but elsewhere in memory, as if just parsed
	reread.Holder, reread.Issuer = strings.Clone(reread.Holder), strings.Clone(reread.Issuer)
	for _, bench := range []struct {
		name  string
		mark  guard.Mark
		token guard.Token
	}{
		{"current", admitted, benchToken},
		{"current, parsed", admitted, reread},
		{"takeover", before, benchToken},
		{"untouched", guard.Mark{}, benchToken},
	} {
		b.Run(bench.name, func(b *testing.B) {
			mark, token := bench.mark, bench.token
			b.ReportAllocs()
			for b.Loop() {
				if _, err := guard.Admit(mark, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkClaimed(b *testing.B) {
	token := benchToken
	mark, _ := guard.Admit(guard.Mark{}, token)
	b.ReportAllocs()
	for b.Loop() {
		if err := guard.Claimed(mark, token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := benchToken.String()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := guard.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkString(b *testing.B) {
	token := benchToken
	b.ReportAllocs()
	for b.Loop() {
		_ = token.String()
	}
}

package carrier_test

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

const appended = "-c fence.token=" + ordersText

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, options, stripped string }{
		{"none", "", ""},
		{"one setting", "-c search_path=a", "-c search_path=a"},
		{"spelt in every way", "-csearch_path=a --work_mem=1MB -c  geqo=off", "-csearch_path=a --work_mem=1MB -c  geqo=off"},
		{"space escaped", `-c search_path=a,\ b`, `-c search_path=a,\ b`},
		{"backslash escaped", `-c x.y=a\\ -c geqo=off`, `-c x.y=a\\ -c geqo=off`},
		{"backslash escaped at the end", `-c x.y=a\\`, `-c x.y=a\\`},
		{"backslash at the end", `-c x.y=a\`, `-c x.y=a`},
		{"backslash after an escaped one", `-c x.y=a\\\`, `-c x.y=a\\`},
		{"spaces around", "\t-c geqo=off  ", "\t-c geqo=off  "},
		{"a token", "-c fence.token=" + newerText, ""},
		{"a token without space", "-cfence.token=" + newerText, ""},
		{"a token by its long name", "--fence.token=" + newerText, ""},
		{"a token in upper case", "-c FENCE.Token=" + newerText, ""},
		{"a token behind other switches", "-Oc fence.token=" + newerText + " -S 5", "-O -S 5"},
		{"a token behind other switches, without space", "-ObOcfence.token=" + newerText, "-ObO"},
		{"a token among settings", `-c search_path=a,\ b -c fence.token=` + newerText + "  --geqo=off", `-c search_path=a,\ b --geqo=off`},
		{"a token and a backslash to keep", `-c x.y=\\\  -cfence.token=` + newerText, `-c x.y=\\\ `},
		{"two tokens", "--fence.token=x -c fence.token=y -c geqo=off", "-c geqo=off"},
		{"an empty token", "-c fence.token=", ""},
		{"a token with escapes", `-c f\ence.token=` + newerText, ""},
		{"another setting of ours", "-c fence.resource=orders -c fence.tokens=1", "-c fence.resource=orders -c fence.tokens=1"},
		{"a value that looks like one", "-c x.y=fence.token=a -S -cfence.token=a", "-c x.y=fence.token=a -S -cfence.token=a"},
		{"a switch whose value looks like one", "-v fence.token=a", "-v fence.token=a"},
		{"a switch without its value", "-c", "-c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := carrier.StripOptions(row.options); got != row.stripped {
				t.Errorf("stripped to %q, want %q", got, row.stripped)
			}
			want := strings.TrimPrefix(row.stripped+" "+appended, " ")
			set, err := carrier.SetOptions(row.options, orders)
			if err != nil || set != want {
				t.Errorf("set to %q, %v, want %q", set, err, want)
			}
			if row.stripped == "-c" {
				return // takes what is appended for its value; the server refuses that
			}
			tokens, err := carrier.OptionsTokens(set)
			expect(t, set, tokens, err, nil, orders)
		})
	}
}

func TestOptionsTokens(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		options string
		reason  error
	}{
		{"", guard.ErrNoToken},
		{"-c geqo=off", guard.ErrNoToken},
		{"-c fence.token=", guard.ErrNoToken},
		{"-c fence.token", guard.ErrNoToken},
		{"fence.token=" + ordersText, guard.ErrNoToken},
		{"-- fence.token=" + ordersText, guard.ErrNoToken},
		{"-c fence.token=42", guard.ErrMalformed},
		{`-c fence.token=` + ordersText + `\ `, guard.ErrMalformed},
		{"-c fence.token=" + ordersText + " --fence.token=" + newerText, guard.ErrMalformed},
		{"-c fence.token=" + ordersText, nil},
		{"-cFENCE.TOKEN=" + ordersText, nil},
		{"-O -S 5 -Oc fence.token=" + ordersText, nil},
		{`-c fence.token=ft1:x:42:9f8c:k3v9:\orders`, nil},
		{"-c\vfence.token=" + ordersText + "\n--geqo=off", nil},
		{"-c fence.token=" + ordersText + " --fence.token=" + ordersText, nil},
	} {
		tokens, err := carrier.OptionsTokens(row.options)
		expect(t, row.options, tokens, err, row.reason, orders)
	}
}

func FuzzOptions(f *testing.F) {
	for _, options := range []string{"", `a\ b\\ c\`, "-Oc fence.token=x", "--fence.token=a -c", "-c\\ x -\\cfence.token=1", "-- -", `\ `} {
		f.Add(options)
	}
	f.Fuzz(func(t *testing.T, options string) {
		stripped := carrier.StripOptions(options)
		if again := carrier.StripOptions(stripped); again != stripped {
			t.Errorf("%q is stripped to %q, and that to %q", options, stripped, again)
		}
		if tokens, err := carrier.OptionsTokens(stripped); err == nil {
			t.Errorf("%q is stripped to %q, which carries %v", options, stripped, tokens)
		}
		set, err := carrier.SetOptions(options, orders)
		if err != nil || !strings.HasPrefix(set, stripped) || !strings.HasSuffix(set, appended) {
			t.Errorf("%q is set to %q, %v", options, set, err)
		}
	})
}

func TestStatements(t *testing.T) {
	t.Parallel()
	for want, statement := range map[string]func(...guard.Token) (string, error){
		"SET fence.token = '" + bothText + "'":       carrier.SetStatement,
		"SET LOCAL fence.token = '" + bothText + "'": carrier.SetLocalStatement,
	} {
		if sql, err := statement(orders, stock); err != nil || sql != want {
			t.Errorf("got %q, %v, want %q", sql, err, want)
		}
		if sql, err := statement(guard.Token{Resource: "'; DROP TABLE ledger; --"}); err == nil || sql != "" {
			t.Errorf("a malformed token became %q", sql)
		}
		if _, err := statement(); err == nil {
			t.Error("no token was set")
		}
	}
}

func TestGUCTokens(t *testing.T) {
	t.Parallel()
	tokens, err := carrier.GUCTokens(bothText)
	expect(t, "both", tokens, err, nil, orders, stock)
	tokens, err = carrier.GUCTokens("")
	expect(t, "empty", tokens, err, guard.ErrNoToken)
	tokens, err = carrier.GUCTokens(" ")
	expect(t, "space", tokens, err, guard.ErrMalformed)
}

func TestMarkDetail(t *testing.T) {
	t.Parallel()
	for want, mark := range map[string]guard.Mark{
		"mark: generation=0 writer=34 holder=9f8c reader=0 issuer=k3v9": {Writer: 34, Holder: "9f8c", Issuer: "k3v9"},
		"mark: generation=0 writer=0 holder= reader=0 issuer=":          {},
		"mark: generation=4294967295 writer=9223372036854775807 holder=_-9 reader=9223372036854775807 issuer=-": {
			Generation: 1<<32 - 1, Writer: 1<<63 - 1, Holder: "_-9", Reader: 1<<63 - 1, Issuer: "-",
		},
	} {
		if got := carrier.MarkDetail(mark); got != want {
			t.Errorf("printed as %q, want %q", got, want)
		}
		if got, ok := carrier.ParseMarkDetail(want); !ok || got != mark {
			t.Errorf("%q is read as %+v, %v", want, got, ok)
		}
	}
	for _, detail := range []string{
		"",
		"mark:",
		"mark: generation=0 writer=34 holder=9f8c reader=0",
		"mark: generation=0 writer=34 holder=9f8c reader=0 issuer=k3v9\n",
		"mark: generation=0 writer=34 holder=9f 8c reader=0 issuer=k3v9",
		"mark: generation=-1 writer=34 holder=9f8c reader=0 issuer=k3v9",
		"mark: generation=4294967296 writer=34 holder=9f8c reader=0 issuer=k3v9",
		"mark: generation=0 writer=9223372036854775808 holder=9f8c reader=0 issuer=k3v9",
		"mark: writer=34 generation=0 holder=9f8c reader=0 issuer=k3v9",
		"Key (id)=(1) already exists.",
	} {
		if got, ok := carrier.ParseMarkDetail(detail); ok {
			t.Errorf("%q is read as %+v", detail, got)
		}
	}
}

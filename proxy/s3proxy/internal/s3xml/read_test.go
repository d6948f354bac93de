package s3xml

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// What the SDKs send: with and without a declaration, a namespace, blanks.
const (
	completeOfBoto = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Part><ETag>"a1"</ETag><PartNumber>1</PartNumber></Part><Part><ETag>"b2"</ETag><ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME><PartNumber>2</PartNumber></Part></CompleteMultipartUpload>`
	deleteOfJS     = `<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a&amp;&lt;&gt;&apos;&quot; b</Key><ETag>&quot;e&quot;</ETag></Object><Object><Key>&#xD;</Key><VersionId>null</VersionId></Object><Quiet>true</Quiet></Delete>`
	taggingOfCLI   = "<?xml version='1.0' encoding='UTF-8'?>\n<s3:Tagging xmlns:s3='urn:x'>\n <s3:TagSet>\n  <s3:Tag><s3:Key>a</s3:Key><s3:Value/></s3:Tag>\n  <s3:Tag><s3:Value> v </s3:Value><s3:Key>k</s3:Key></s3:Tag>\n </s3:TagSet>\n</s3:Tagging>\n"
)

func isFlaw(err error) bool {
	var flaw *SyntaxError
	return errors.As(err, &flaw)
}

func TestReadComplete(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text string
		want []Part
	}{
		{completeOfBoto, []Part{{Number: 1, ETag: "a1"}, {Number: 2, ETag: "b2", Checksums: map[string]string{"ChecksumCRC64NVME": "AAAAAAAAAAA="}}}},
		{"<CompleteMultipartUpload><Part>\n<PartNumber> 7 </PartNumber><ETag>x</ETag><Later><Deep>1</Deep></Later></Part><Else/></CompleteMultipartUpload>\n", []Part{{Number: 7, ETag: "x"}}},
		{"\uFEFF<!-- c --><CompleteMultipartUpload><Part><PartNumber>10000</PartNumber><ETag><![CDATA[\"q\"]]></ETag></Part></CompleteMultipartUpload>", []Part{{Number: 10000, ETag: "q"}}},
		{text: ""},
		{text: "<CompleteMultipartUpload/>"},
		{text: "<Complete/>"},
		{text: "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"},
		{text: "<CompleteMultipartUpload><Part><ETag>x</ETag></Part></CompleteMultipartUpload>"},
		{text: strings.ReplaceAll(completeOfBoto, ">1<", ">0<")},
		{text: strings.ReplaceAll(completeOfBoto, ">1<", ">-1<")},
		{text: strings.ReplaceAll(completeOfBoto, ">1<", ">10001<")},
		{text: strings.ReplaceAll(completeOfBoto, ">1<", ">1<PartNumber>2</PartNumber><")},
		{text: strings.ReplaceAll(completeOfBoto, "<PartNumber>1", "<PartNumber>2</PartNumber><PartNumber>1")},
		{text: strings.TrimSuffix(completeOfBoto, ">")},
		{text: completeOfBoto + "x"},
		{text: completeOfBoto + completeOfBoto},
	} {
		parts, err := ReadComplete(strings.NewReader(row.text))
		if isFlaw(err) != (row.want == nil) || err == nil && !reflect.DeepEqual(parts, row.want) {
			t.Errorf("%.200s: %+v, %v", row.text, parts, err)
		}
	}
}

func TestReadDelete(t *testing.T) {
	t.Parallel()
	object := func(inside string) string { return "<Delete><Object>" + inside + "</Object></Delete>" }
	for _, row := range []struct {
		text string
		want []DeleteObject
	}{
		{deleteOfJS, []DeleteObject{{Key: `a&<>'" b`, ETag: "e"}, {Key: "\r", VersionID: "null"}}},
		{object("<Key> / </Key><Size>3</Size>"), []DeleteObject{{Key: " / ", OtherCondition: true}}},
		{text: object("")},
		{text: object("<Key></Key>")},
		{text: object("<Key>k</Key><Key>l</Key>")},
		{text: object("<Key>k<b/></Key>")},
		{text: object("<Key>k</Key><ETag/>")},
		{text: object("<Key>k</Key><ETag>e</ETag><ETag>f</ETag>")},
		{text: object("<Key>k</Key><IfMoonIsFull>true</IfMoonIsFull>")},
		{text: object("<Key>k&#x1;</Key>")},
		{text: object("<Key>k\x01</Key>")},
		{text: object("<Key>k\xff</Key>")},
		{text: "<Delete></Delete>"},
		{text: "<Delete><Quiet>perhaps</Quiet><Object><Key>k</Key></Object></Delete>"},
	} {
		d, err := ReadDelete(strings.NewReader(row.text))
		if isFlaw(err) != (row.want == nil) || err == nil && !reflect.DeepEqual(d.Objects, row.want) {
			t.Errorf("%s: %+v, %v", row.text, d, err)
		}
		if err == nil && d.Quiet != strings.Contains(row.text, "Quiet>true") {
			t.Errorf("%s: quiet %v", row.text, d.Quiet)
		}
	}
}

func TestReadTagging(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Tag{
		taggingOfCLI:                   {{Key: "a"}, {Key: "k", Value: " v "}},
		"<Tagging><TagSet/></Tagging>": {},
		"<Tagging/>":                   nil,
		"<Tagging><TagSet><Tag/></TagSet></Tagging>":                                                         nil,
		"<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>":                                        nil,
		"<Tagging><TagSet>" + strings.Repeat("<Tag><Key>k</Key><Value/></Tag>", 101) + "</TagSet></Tagging>": nil,
	} {
		tags, err := ReadTagging(strings.NewReader(text))
		if isFlaw(err) != (want == nil) || err == nil && len(tags)+len(want) > 0 && !reflect.DeepEqual(tags, want) {
			t.Errorf("%.200s: %+v, %v", text, tags, err)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	list := func(n int) string {
		return "<Delete>" + strings.Repeat("<Object><Key>"+strings.Repeat("&amp;", 100)+"</Key></Object>", n) + "</Delete>"
	}
	if d, err := ReadDelete(strings.NewReader(list(1000))); err != nil || len(d.Objects) != 1000 {
		t.Errorf("1000 objects: %d, %v", len(d.Objects), err)
	}
	var most strings.Builder
	for i := range MaxParts {
		fmt.Fprintf(&most, "\n  <Part>\n    <ETag>&quot;%032x&quot;</ETag>\n    <ChecksumSHA256>%044d</ChecksumSHA256>\n    <PartNumber>%d</PartNumber>\n  </Part>", i, i, i+1)
	}
	if parts, err := ReadComplete(strings.NewReader("<CompleteMultipartUpload>" + most.String() + "</CompleteMultipartUpload>")); err != nil || len(parts) != MaxParts {
		t.Errorf("10000 parts: %d, %v", len(parts), err)
	}
	long := strings.Repeat("x", 2*maxPiece)
	laughs := `<!DOCTYPE Delete [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>` + strings.Replace(list(1), "&amp;", "&b;", 1)
	for what, text := range map[string]string{
		"1001 objects":    list(1001),
		"depth":           strings.Repeat("<Delete>", 9),
		"document type":   laughs,
		"unknown entity":  strings.Replace(list(1), "&amp;", "&b;", 1),
		"another charset": `<?xml version="1.0" encoding="UTF-16"?>` + list(1),
		"not to its end":  strings.TrimSuffix(list(1), "</Delete>"),
		"a long text":     strings.Replace(list(1), "&amp;", long, 1),
		"long in pieces":  strings.Replace(list(1), "&amp;", strings.Repeat("x<!---->", maxPiece+1), 1),
		"many attributes": strings.Replace(list(1), "<Delete", "<Delete "+strings.Repeat(`a="" `, maxPiece), 1),
		"a long name":     "<" + long + list(1),
		"a long comment":  "<!--" + long + "-->" + list(1),
	} {
		if _, err := ReadDelete(strings.NewReader(text)); !isFlaw(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	blank := strings.Repeat("<!---->", (maxSize-len(list(1)))/7) + strings.Repeat(" ", (maxSize-len(list(1)))%7)
	if _, err := ReadDelete(strings.NewReader(list(1) + blank)); err != nil {
		t.Errorf("as large as can be: %v", err)
	}
	if _, err := ReadDelete(strings.NewReader(list(1) + blank + " ")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte too large: %v", err)
	}
}

// A body that is not what its signature says fails as such, wherever the
// document ends, and also when the document is wrong before.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad signature")
	for _, text := range []string{deleteOfJS, deleteOfJS[:100], ""} {
		r := io.MultiReader(iotest.OneByteReader(strings.NewReader(text)), iotest.ErrReader(bad))
		if _, err := ReadDelete(r); !errors.Is(err, bad) || isFlaw(err) {
			t.Errorf("%.30q…: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{completeOfBoto, deleteOfJS, taggingOfCLI, "<Delete><Object/>", "<!DOCTYPE a><a>&b;</a>"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parts, err := ReadComplete(strings.NewReader(string(text)))
		if err == nil && len(parts) == 0 {
			t.Error("no parts")
		}
		for _, p := range parts {
			if err == nil && (p.Number < 1 || p.Number > MaxParts || p.ETag == "") {
				t.Errorf("part %+v", p)
			}
		}
		d, err := ReadDelete(strings.NewReader(string(text)))
		if err == nil && len(d.Objects) == 0 {
			t.Error("no objects")
		}
		for _, o := range d.Objects {
			if err == nil && o.Key == "" {
				t.Errorf("object %+v", o)
			}
		}
		tags, err := ReadTagging(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		again, err := ReadTagging(strings.NewReader(string(Encode(Tagging{Tags: tags}))))
		if err != nil || len(again)+len(tags) > 0 && !reflect.DeepEqual(again, tags) {
			t.Errorf("%q became %q, %v", tags, again, err)
		}
	})
}

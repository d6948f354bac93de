package carrier

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/fenceproxy/fenceproxy/guard"
)

// MarkDetail returns the DETAIL with which Postgres tells the mark that refused
// a token:
//
//	mark: generation=0 writer=34 holder=9f8c reader=0 issuer=k3v9
func MarkDetail(m guard.Mark) string {
	return fmt.Sprintf("mark: generation=%d writer=%d holder=%s reader=%d issuer=%s",
		m.Generation, m.Writer, m.Holder, m.Reader, m.Issuer)
}

var markDetail = regexp.MustCompile(
	`^mark: generation=([0-9]+) writer=([0-9]+) holder=([A-Za-z0-9_-]*) reader=([0-9]+) issuer=([A-Za-z0-9_-]*)$`)

// ParseMarkDetail reads what MarkDetail prints, and reports false for any
// other text: a refusal for which no mark was read has another DETAIL, or none.
func ParseMarkDetail(detail string) (guard.Mark, bool) {
	field := markDetail.FindStringSubmatch(detail)
	if field == nil {
		return guard.Mark{}, false
	}
	generation, err1 := strconv.ParseUint(field[1], 10, 32)
	writer, err2 := strconv.ParseInt(field[2], 10, 64)
	reader, err3 := strconv.ParseInt(field[4], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return guard.Mark{}, false
	}
	return guard.Mark{
		Generation: uint32(generation), Writer: writer, Holder: field[3], Reader: reader, Issuer: field[5],
	}, true
}

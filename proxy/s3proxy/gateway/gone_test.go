package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// A client has been told that its completion is still coming, and goes. The completion
// loses to an older write: whoever repeats it, at another proxy too, is not to overwrite
// that unseen (I9).
func TestLateOlderWriteOfClientThatHasGone(t *testing.T) {
	t.Parallel()
	const key = "k"
	s := newSite(t)
	older, another := s.proxy(t), s.proxy(t)
	s.patience = time.Millisecond
	newer := s.proxy(t)
	older.put(t, key, "first", number(33))
	id := create(t, newer, key, number(34))
	body := completeBody(upload(t, newer, key, id, 1, "new", number(34)))
	path, header := "/"+key+"?uploadId="+id, map[string]string{"Amz-Sdk-Invocation-Id": "one", "Amz-Sdk-Request": "attempt=1; max=5"}

	held := s.link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
	res := newer.begin(t, http.MethodPost, path, strings.NewReader(body), int64(len(body)), hexOf(body), header, number(34))
	<-held.Taken()
	older.put(t, key, "late", number(33))
	res.Body.Close()        // and its connection
	s.made.serving.Lock()   // until the request has ended
	s.made.serving.Unlock() //nolint:staticcheck // that was all

	header["Amz-Sdk-Request"] = "attempt=2; max=5"
	another.do(t, http.MethodPost, path, body, header, number(34)).expect(t, "repeated elsewhere", http.StatusNotFound, "NoSuchUpload")
	newer.holds(t, key, "late")
}

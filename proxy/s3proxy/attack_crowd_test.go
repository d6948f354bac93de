package s3proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// Sixteen writers under one token, on one key and on many, through one proxy and
// through two: none is ever told that a condition of its is false, or that its
// token is not good. What has lost is 503, or 500 where the store's answer was lost,
// and comes through when it is repeated as SDKs do (I3).
func TestAttackCrowd(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	holder := carrying(t, token(34))
	proxies := []*proxy{e.start(t), e.start(t)}
	put(t, proxies[0].app(t, token(34)), e.bucket, "source", "s")
	for _, among := range []int{1, 2} {
		for _, keys := range []int{1, 8} {
			t.Run(fmt.Sprintf("%d proxies, %d keys", among, keys), func(t *testing.T) {
				t.Parallel()
				at := func(key string) string { return fmt.Sprintf("/%s/%d-%d-%s", e.bucket, among, keys, key) }
				kinds := []request{
					{method: http.MethodPut, body: "small"},
					{method: http.MethodPut, body: strings.Repeat("l", 1<<20+1)},
					{method: http.MethodPut, body: "expecting", header: map[string]string{"Expect": "100-continue"}},
					{method: http.MethodDelete},
					{method: http.MethodPut, header: map[string]string{"x-amz-copy-source": e.bucket + "/source"}},
					{method: http.MethodPut, header: map[string]string{"x-amz-copy-source": at("0")}, target: "-copy"},
					{method: http.MethodPut, body: "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>", target: "?tagging"},
				}
				var busy atomic.Int32
				var writers sync.WaitGroup
				for w := range 16 {
					writers.Go(func() {
						p := proxies[w%among]
						client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
						defer client.CloseIdleConnections()
						for round := range 6 {
							q := kinds[(w+round)%len(kinds)]
							q.target = at(fmt.Sprint((w+round)%keys)) + q.target
							q.header = with(q.header, holder)
							if !crowded(t, client, p, q, &busy) {
								return
							}
						}
					})
				}
				writers.Wait()
				t.Logf("%d were asked to come again", busy.Load())
			})
		}
	}
}

// lost reports whether an answer is that the store's is lost: versitygw resets the
// connection of a body that it does not want.
func lost(status int, body string) bool {
	return status == http.StatusInternalServerError && strings.Contains(body, "It is unknown whether")
}

// crowded sends a request until it is not 503 any more, and reports whether that
// came to something.
func crowded(t *testing.T, client *http.Client, p *proxy, q request, busy *atomic.Int32) bool {
	for try := range 20 {
		res, err := client.Do(q.sign(t, p.addr, appKey, appSecret))
		if err != nil {
			t.Errorf("%s %s: %v", q.method, q.target, err)
			return false
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		switch {
		case res.StatusCode/100 == 2 && !strings.Contains(string(body), "<Error>"):
			return true
		case res.StatusCode == http.StatusNotFound && (strings.HasSuffix(q.target, "?tagging") || strings.HasSuffix(q.target, "-copy")): // a delete came first
			return true
		case res.StatusCode != http.StatusServiceUnavailable && !strings.Contains(string(body), "SlowDown") && !lost(res.StatusCode, string(body)):
			t.Errorf("%s %s: %d %s", q.method, q.target, res.StatusCode, body)
			return false
		}
		busy.Add(1)
		<-time.After(time.Duration(try+1) * 20 * time.Millisecond) // as SDKs do
	}
	t.Errorf("%s %s: did not come through", q.method, q.target)
	return false
}

// Sixteen uploads of one key end at once, through two proxies: all that is
// acknowledged was there, and each Complete that is repeated says so again or that
// the upload is gone (I2, I3).
func TestAttackCrowdOfCompletes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	proxies := []*proxy{e.start(t), e.start(t)}
	var done sync.WaitGroup
	for i := range 16 {
		done.Go(func() {
			c := proxies[i%2].app(t, token(34))
			value := fmt.Sprint("value ", i)
			id, err := c.NewMultipartUpload(t.Context(), e.bucket, "k", minio.PutObjectOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			part, err := c.PutObjectPart(t.Context(), e.bucket, "k", id, 1, strings.NewReader(value), int64(len(value)), minio.PutObjectPartOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			asked := false // whether the store's answer was lost: another may have overwritten it then
			for try := range 20 {
				_, err = c.CompleteMultipartUpload(t.Context(), e.bucket, "k", id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
				r := minio.ToErrorResponse(err)
				if asked && r.Code == minio.NoSuchUpload {
					err = nil
				}
				if err == nil || r.StatusCode < 500 {
					break
				}
				asked = asked || lost(r.StatusCode, r.Message)
				<-time.After(time.Duration(try+1) * 20 * time.Millisecond)
			}
			if err != nil {
				t.Errorf("complete %d: %v", i, err)
			}
		})
	}
	done.Wait()
	if v, err := get(t, proxies[0].app(t), e.bucket, "k", minio.GetObjectOptions{}); err != nil || !strings.HasPrefix(v, "value ") {
		t.Errorf("%q, %v", v, err)
	}
	for u := range e.bare.ListIncompleteUploads(t.Context(), e.bucket, "k", true) {
		t.Errorf("an upload is left: %v %s", u.Err, u.UploadID)
	}
}

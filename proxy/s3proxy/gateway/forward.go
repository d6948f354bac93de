package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/address"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/bypass"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/upstream"
)

// forward sends a request on to the store as it is, but signed by the proxy: it
// is about nothing that is fenced. The body is decoded and verified on the way.
func (x *exchange) forward() error {
	q, err := x.onward()
	if err != nil {
		return err
	}
	req, err := x.g.store.Sign(x.ctx(), q)
	if errors.Is(err, upstream.ErrTooLarge) {
		return refusal.New(refusal.MaxMessageLengthExceeded, "Your request was too big.")
	}
	if err != nil {
		return guard.WithOutcome(err, guard.NotApplied)
	}
	if x.target.Access == operation.Write {
		return x.forwardWrite(req)
	}
	res, err := x.g.store.RoundTrip(req)
	if err != nil {
		return err
	}
	return x.back(res)
}

// forwardWrite sends a request that may write, unless a reload is about to fence what it
// writes, or does so before it is over and does not wait for it.
func (x *exchange) forwardWrite(req *http.Request) error {
	write, ok := x.g.gate.Enter(x.ctx(), x.target.Bucket, x.target.Key)
	if !ok {
		return fencing()
	}
	defer write.End()
	interrupted := make(chan struct{})
	stop := context.AfterFunc(write.Context(), func() {
		defer close(interrupted)
		if write.WasCut() {
			x.in.Stop() // the store gets no more of it
		}
	})
	res, err := x.g.store.RoundTrip(req.WithContext(write.Context()))
	if !stop() {
		<-interrupted
	}
	if unreached := (*net.OpError)(nil); errors.As(err, &unreached) && unreached.Op == "dial" {
		err = guard.WithOutcome(err, guard.NotApplied)
	}
	switch {
	case err == nil && res.ContentLength >= 0: // else the answer may begin before it is known
		write.Over()
	case err != nil && write.WasCut() && !x.in.Whole():
		return fencing()
	}
	if err == nil {
		err = x.back(res)
	}
	x.cutOff(write, x.target.Key)
	return err
}

// fencing is the answer to a write that is not sent, or not to its end.
func fencing() error {
	return refusal.New(refusal.SlowDown, "The key is being fenced. Nothing was written: try again.")
}

// cutOff warns of a write that the store may carry out though nobody waits for it.
func (x *exchange) cutOff(write *bypass.Write, key string) {
	if write.WasCut() {
		x.g.log.Warn("the store may still carry out a write of a key that is fenced now", keyBucket, x.target.Bucket, keyKey, key, keyRequest, x.id, keyOperation, x.name())
	}
}

// back answers with what the store has answered.
func (x *exchange) back(res *http.Response) error {
	defer res.Body.Close()
	header.Back(x.w.Header(), res.Header)
	x.w.WriteHeader(res.StatusCode)
	if x.w.Bare() {
		return nil
	}
	return x.pour(res.Body)
}

// onward is the request as the store is to get it. Its path is made of the bucket
// and the key that were looked at, so that the store cannot read anything else
// in it; and so is the source of a copy.
func (x *exchange) onward() (*upstream.Request, error) {
	p, err := x.payload()
	if err != nil {
		return nil, err
	}
	t := &x.target
	object := t.Name == operation.PutObject || t.Name == operation.UploadPart
	if object && p.Size() > maxPut {
		return nil, refusal.New(refusal.EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
	}
	from, copies, err := x.source()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"uploadId", "versionId", "partNumber", "id"} {
		if err := address.ID(name, t.Query.Get(name)); err != nil {
			return nil, err
		}
	}
	if err := address.ID("versionId", from.Version); err != nil {
		return nil, err
	}
	q := &upstream.Request{
		Method: x.r.Method, Bucket: t.Bucket, Key: t.Key, Query: url.Values{}, Header: header.Onward(x.r.Header),
		Body: p, Size: p.Size(), Object: object,
	}
	for name, values := range t.Query {
		if !strings.HasPrefix(strings.ToLower(name), "x-") { // those of the signature, and those that are headers now
			q.Query[name] = values
		}
	}
	if t.Name == operation.DeleteObjects {
		if err := onwardDelete(q, p); err != nil {
			return nil, err
		}
	}
	if copies {
		value := s3utils.EncodePath(from.Bucket + "/" + from.Key)
		if from.Version != "" {
			value += "?versionId=" + url.QueryEscape(from.Version)
		}
		q.Header.Set("X-Amz-Copy-Source", value)
	}
	return q, nil
}

// onwardDelete makes the body of q a list of keys that were looked at, as the path
// is: a store that keeps objects as files may take "../bucket/key" for a key of
// another bucket's, which may be fenced or not the client's.
func onwardDelete(q *upstream.Request, p *sigv4.Payload) error {
	d, err := readXML(p, s3xml.ReadDelete)
	if err != nil {
		return err
	}
	for i := range d.Objects {
		if err := address.Key(d.Objects[i].Key); err != nil {
			return err
		}
		if err := address.ID("VersionId", d.Objects[i].VersionID); err != nil {
			return err
		}
		if d.Objects[i].OtherCondition {
			return refusal.New(refusal.NotImplemented, "Conditions on size and time are not implemented by the proxy.")
		}
	}
	data := s3xml.Encode(d)
	q.Body, q.Size = bytes.NewReader(data), int64(len(data))
	for name := range q.Header {
		if strings.HasPrefix(name, "X-Amz-Checksum-") { // it was verified, and is of what the client sent
			q.Header.Del(name)
		}
	}
	return nil
}

// pour streams a body of any length.
func (x *exchange) pour(body io.Reader) error {
	buffer := x.g.buffers.Get().(*[]byte)
	defer x.g.buffers.Put(buffer)
	_, err := io.CopyBuffer(struct{ io.Writer }{x.w}, body, *buffer)
	return err
}

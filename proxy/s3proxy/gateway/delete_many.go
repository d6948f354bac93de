package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/address"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// deletesAtOnce is how many keys of one request are deleted at once.
const deletesAtOnce = 16

// deleteObjects deletes keys one by one: each is decided by what is there and
// by the token that it belongs to, as if it had come alone.
func (x *exchange) deleteObjects() error {
	p, err := x.payload()
	if err != nil {
		return err
	}
	d, err := readXML(p, s3xml.ReadDelete)
	if err != nil {
		return err
	}
	if len(p.Checksums()) == 0 && x.r.Header.Get("Content-Md5") == "" {
		return refusal.New(refusal.InvalidRequest, "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
	}
	return x.late(x.g.patience, func() (s3xml.Document, error) { return x.deleteEach(d), nil })
}

func (x *exchange) deleteEach(d s3xml.Delete) s3xml.DeleteObjects {
	errs := make([]error, len(d.Objects))
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	for i := range d.Objects {
		group.Go(func() error {
			o := &d.Objects[i]
			errs[i] = x.onceEach(o.Key, func() error { return x.deleteOne(o) })
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	var r s3xml.DeleteObjects
	told := map[string]bool{} // the log, of an error: all keys may have the same
	for i, err := range errs {
		o := &d.Objects[i]
		if err != nil {
			e := refusal.Of(err, x.target.Access)
			if !told[e.Code] && x.ctx().Err() == nil {
				x.report(e)
				told[e.Code] = true
			}
			r.Errors = append(r.Errors, s3xml.DeleteError{Key: o.Key, VersionID: o.VersionID, Code: e.Code, Message: e.Message})
		} else if !d.Quiet {
			r.Deleted = append(r.Deleted, o.Key)
		}
	}
	return r
}

func (x *exchange) deleteOne(o *s3xml.DeleteObject) error {
	if err := address.Key(o.Key); err != nil {
		return err
	}
	switch {
	case o.VersionID != "":
		return refusal.New(refusal.NotImplemented, "Versions are not implemented by the proxy.")
	case o.OtherCondition:
		return refusal.New(refusal.NotImplemented, "Conditions on size and time are not implemented by the proxy.")
	}
	fenced, err := x.fenced(x.target.Bucket, o.Key)
	if err != nil {
		return err
	}
	if !fenced {
		return x.deleteBare(o)
	}
	return x.write(o.Key, 0, func(token guard.Token) error {
		return x.store.Delete(x.ctx(), token, o.Key, s3store.DeleteOptions{IfMatch: etag.Named(o.ETag)})
	})
}

// deleteBare deletes a key that no resource covers.
func (x *exchange) deleteBare(o *s3xml.DeleteObject) error {
	switch {
	case len(x.tokens) > 0:
		return refusal.Fence(guard.ErrNoToken, "no resource covers this key, so a token has no meaning there")
	case o.ETag != "":
		return refusal.New(refusal.NotImplemented, "A condition on an object that is not fenced is not implemented by the proxy: delete it alone.")
	}
	write, ok := x.g.gate.Enter(x.ctx(), x.target.Bucket, o.Key)
	if !ok {
		return fencing()
	}
	defer write.End()
	err := x.g.core.RemoveObject(write.Context(), x.target.Bucket, o.Key, minio.RemoveObjectOptions{})
	x.cutOff(write, o.Key)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("delete: %w", err)
	if r := (minio.ErrorResponse{}); errors.As(err, &r) && r.StatusCode/100 == 4 && r.StatusCode != http.StatusRequestTimeout {
		return guard.WithOutcome(err, guard.NotApplied)
	}
	return err
}

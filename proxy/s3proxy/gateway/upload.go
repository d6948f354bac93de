package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/checksum"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/measure"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/upstream"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// createUpload begins an upload. A condition has no meaning here, as on S3: it
// has to be given to Complete.
func (x *exchange) createUpload() error {
	o, err := header.PutOptions(x.r.Header)
	if err != nil {
		return err
	}
	var id string
	err = x.write(x.target.Key, 0, func(token guard.Token) (err error) {
		id, err = x.store.CreateUpload(x.ctx(), token, x.target.Key, o)
		return err
	})
	if err != nil {
		return err
	}
	return x.xml(http.StatusOK, s3xml.CreateUpload{Bucket: x.target.Bucket, Key: x.target.Key, UploadID: id})
}

func (x *exchange) partNumber() (int, error) {
	text := x.target.Query.Get("partNumber")
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n < 1 || n > s3xml.MaxParts {
		return 0, header.Invalid("partNumber", text, "Part number must be an integer between 1 and 10000, inclusive")
	}
	return int(n), nil
}

func (x *exchange) uploadPart() error {
	number, err := x.partNumber()
	if err != nil {
		return err
	}
	p, err := x.payload()
	if err != nil {
		return err
	}
	most := int64(maxPut)
	if number == 1 {
		most -= layout.HeaderSize
	}
	if p.Size() > most {
		return refusal.New(refusal.EntityTooLarge, "Your proposed upload exceeds the maximum allowed size of a part, which is %d bytes", most)
	}
	id := x.target.Query.Get("uploadId")
	var part minio.ObjectPart
	err = x.write(x.target.Key, p.Size(), func(token guard.Token) (err error) { // it knows whose upload it is before it reads the body
		part, err = x.store.UploadPart(upstream.Sending(x.ctx(), p), token, x.target.Key, id, number, p, p.Size())
		return err
	})
	if err != nil {
		return err
	}
	shown := etag.Verified(number, part.ETag, p.Checksums(), p.Size())
	x.g.parts.Remember(id, number, part.ETag, shown)
	h := x.w.Header()
	h.Set("ETag", etag.Quoted(shown))
	for name, value := range p.Checksums() {
		h.Set(name, value)
	}
	return x.reply(http.StatusOK)
}

// listParts answers which parts an upload has.
func (x *exchange) listParts() error {
	r := s3xml.ListParts{Bucket: x.target.Bucket, Key: x.target.Key, UploadID: x.target.Query.Get("uploadId")}
	var err error
	if r.MaxParts, err = x.limit("max-parts", maxPage, maxPage); err != nil {
		return err
	}
	if r.Marker, err = x.limit("part-number-marker", 0, s3xml.MaxParts); err != nil {
		return err
	}
	token, err := x.readToken(x.target.Key)
	if err != nil {
		return err
	}
	page, err := x.store.ListParts(x.ctx(), token, x.target.Key, r.UploadID, r.Marker, max(r.MaxParts, 1))
	if err != nil {
		return err
	}
	r.Initiator = x.ownerFor(page.Initiator.ID, page.Initiator.DisplayName)
	r.Owner = x.ownerFor(page.Owner.ID, page.Owner.DisplayName)
	r.StorageClass = page.StorageClass
	if r.MaxParts == 0 {
		return x.xml(http.StatusOK, r)
	}
	r.Next, r.Truncated = page.NextPartNumberMarker, page.IsTruncated
	for _, p := range page.ObjectParts {
		r.Parts = append(r.Parts, s3xml.UploadedPart{
			Number: p.PartNumber, LastModified: p.LastModified, ETag: x.g.parts.Part(r.UploadID, p.PartNumber, p.ETag), Size: p.Size,
		})
	}
	return x.xml(http.StatusOK, r)
}

// completeUpload makes an object of an upload. Checksums of the parts and of the
// object are compared here: those that the store knows are of framed parts.
func (x *exchange) completeUpload() error {
	id := x.target.Query.Get("uploadId")
	p, err := x.payload()
	if err != nil {
		return err
	}
	named, err := readXML(p, s3xml.ReadComplete)
	if err != nil {
		return err
	}
	parts := make([]minio.CompletePart, len(named))
	for i, p := range named {
		if i > 0 && p.Number <= named[i-1].Number {
			return refusal.New(refusal.InvalidPartOrder, "The list of parts was not in ascending order. Parts must be ordered by part number.")
		}
		parts[i].PartNumber = p.Number
		parts[i].ETag, _, _ = etag.NamedPart(p.Number, p.ETag)
	}
	token, err := x.writeToken(x.target.Key, 0)
	if err != nil {
		return err
	}
	if err := checksum.Compare(named, x.r.Header); err != nil {
		return err
	}
	err = measure.Parts(parts, x.r.Header, func(marker, limit int) (minio.ListObjectPartsResult, error) {
		return x.store.ListParts(x.ctx(), token, x.target.Key, id, marker, limit)
	})
	if err != nil {
		return err
	}
	o := s3store.CompleteOptions{IfMatch: etag.Named(x.r.Header.Get("If-Match")), IfNoneMatch: x.r.Header.Get("If-None-Match")}
	return x.late(x.g.patience, func() (s3xml.Document, error) {
		info, err := x.store.CompleteUpload(x.ctx(), token, x.target.Key, id, parts, o)
		if other, ok := x.instead(x.target.Key, token, err); ok {
			token = other
			info, err = x.store.CompleteUpload(x.ctx(), token, x.target.Key, id, parts, o)
		}
		if r := (minio.ErrorResponse{}); errors.As(err, &r) && r.Code == minio.NoSuchUpload && guard.OutcomeOf(err) != guard.Refused {
			// S3 says so too of an upload that became an object which was overwritten.
			e := refusal.New(refusal.NoSuchUpload, "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.")
			e.Cause = err
			return nil, e
		}
		if err != nil {
			return nil, x.unmet(err, token, o.IfMatch)
		}
		return s3xml.CompleteUpload{
			Location: x.location(), Bucket: x.target.Bucket, Key: x.target.Key, ETag: etag.Shown(info.ETag),
		}, nil
	})
}

// unmet is the error of a write whose condition did not hold: where there was
// nothing to match S3 says just that.
func (x *exchange) unmet(err error, token guard.Token, ifMatch string) error {
	if ifMatch == "" || !errors.Is(err, s3store.ErrPrecondition) {
		return err
	}
	if _, absent := x.store.Stat(x.ctx(), token, x.target.Key, s3store.GetOptions{Unseen: true}); errors.Is(absent, s3store.ErrNotFound) {
		e := refusal.New(refusal.NoSuchKey, "The specified key does not exist.")
		e.Cause = err
		return e
	}
	return err
}

// location is the URL of the object.
func (x *exchange) location() string {
	u := url.URL{Scheme: "http", Host: x.r.Host, Path: "/" + x.target.Key}
	if x.r.TLS != nil {
		u.Scheme = "https"
	}
	if !x.target.Virtual {
		u.Path = "/" + x.target.Bucket + u.Path
	}
	return u.String()
}

func (x *exchange) abortUpload() error {
	if err := x.abort(); err != nil {
		return err
	}
	return x.reply(http.StatusNoContent)
}

func (x *exchange) abort() error {
	return x.write(x.target.Key, 0, func(token guard.Token) error {
		return x.store.AbortUpload(x.ctx(), token, x.target.Key, x.target.Query.Get("uploadId"))
	})
}

package s3store

import (
	"context"
	"fmt"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/uploadid"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// CreateUpload begins an upload of key in parts under token, which any process
// whose store has the same Config.UploadKey can go on with. It is for payloads
// that come in pieces, as S3's clients send them; Put does all of this by itself.
//
// The id that it returns is ours, not the server's. Parts are uploaded and the
// upload is completed under this very token, and whatever a part is uploaded
// over, it is CompleteUpload that writes the object: it decides by what is at
// the key then. Conditions are its business (CompleteOptions), and a Checksum
// cannot be asked for.
func (s *Store) CreateUpload(ctx context.Context, token guard.Token, key string, o PutOptions) (id string, err error) {
	id, err = s.createUpload(ctx, token, key, o)
	return id, s.done(ctx, "create upload of", key, err)
}

func (s *Store) createUpload(ctx context.Context, token guard.Token, key string, o PutOptions) (string, error) {
	if err := s.sharesUploads(token); err != nil {
		return "", err
	}
	opts, err := o.minio()
	switch {
	case err != nil:
		return "", notApplied(err)
	case o.IfMatch != "" || o.IfNoneMatch != "":
		return "", notApplied(fmt.Errorf("%w: a condition on the creation of an upload", guard.ErrUnsupported))
	case o.Checksum.IsSet():
		return "", notApplied(fmt.Errorf("%w: checksum of an upload", guard.ErrUnsupported))
	}
	g, err := s.writer(ctx, token, key)
	if err == nil {
		err = s.tested.Uploads(ctx, s.parts)
	}
	if err == nil {
		err = s.admits(ctx, g, key)
	}
	if err != nil {
		return "", notApplied(err)
	}
	upstream, err := s.parts.Create(ctx, key, opts)
	if err != nil {
		return "", notApplied(err)
	}
	made := uploadid.ID{Header: g.Header(layout.Live, layout.NewNonce()), Upstream: upstream}
	return uploadid.Seal(s.config.UploadKey, s.config.Bucket, key, made), nil
}

// sharesUploads refuses uploads whose ids nobody could authenticate.
func (s *Store) sharesUploads(token guard.Token) error {
	if len(s.config.UploadKey) == 0 {
		return refuse(token, fmt.Errorf("%w: uploads that are shared need Config.UploadKey", guard.ErrUnsupported))
	}
	return nil
}

// errNoUpload is what a server says of an id that it does not know.
func errNoUpload(key string, err error) error {
	return fmt.Errorf("%w: %w", minio.ErrorResponse{
		StatusCode: 404, Code: minio.NoSuchUpload, Message: "The specified multipart upload does not exist.", Key: key,
	}, err)
}

// ownUpload returns the grant of token and what is sealed in id, if the upload was
// begun under this very token.
func (s *Store) ownUpload(ctx context.Context, token guard.Token, key, id string) (layout.Grant, uploadid.ID, error) {
	g, opened, err := s.openUpload(ctx, token, key, id)
	switch {
	case err != nil:
		return g, opened, err
	case opened.Listed():
		return g, opened, refuse(token, fmt.Errorf("%w: an upload id from a list does not tell whose it is", guard.ErrNoToken))
	case !g.Wrote(opened.Header):
		return g, opened, refuse(token, fmt.Errorf("%w: upload was begun under another token", guard.ErrNoToken))
	}
	return g, opened, nil
}

// openUpload returns the grant of token and what is sealed in id, unless the
// upload was begun under a newer token, or one of another resource.
func (s *Store) openUpload(ctx context.Context, token guard.Token, key, id string) (layout.Grant, uploadid.ID, error) {
	if err := s.sharesUploads(token); err != nil {
		return layout.Grant{}, uploadid.ID{}, err
	}
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return g, uploadid.ID{}, err
	}
	opened, err := uploadid.Open(s.config.UploadKey, s.config.Bucket, key, id)
	if err != nil {
		return g, opened, errNoUpload(key, err)
	}
	if !opened.Listed() {
		err = g.Admits(layout.State{ETag: "upload", Header: opened.Header})
	}
	return g, opened, err
}

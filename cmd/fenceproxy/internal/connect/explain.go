package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/s3code"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// ExplainStore gives the error of a read an exit code, and words that say what to
// do.
func (b *Bucket) ExplainStore(ctx context.Context, err error) error {
	var coded *cli.CodedError
	var refused *guard.RefusedError
	var local *fs.PathError
	var answer minio.ErrorResponse
	var transport *url.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &refused):
		return cli.Fail(cli.ExitDenied, "%w%s", err, b.advice(refused))
	case errors.Is(err, s3store.ErrNotFound):
		return cli.Fail(cli.ExitNotFound, "%w in bucket %q", err, b.Name)
	case errors.Is(err, s3store.ErrPrecondition), errors.Is(err, s3store.ErrConflict):
		return cli.Fail(cli.ExitHeld, "%w; read the object again before you go on", err)
	case errors.As(err, &local):
		return cli.Fail(cli.ExitFailure, "%w", err)
	case errors.As(err, &answer), errors.As(err, &transport):
		return b.Explain(err)
	}
	return cli.Fail(cli.ExitFailure, "%w", err)
}

// advice is what to do about a refusal.
func (b *Bucket) advice(refused *guard.RefusedError) string {
	switch {
	case errors.Is(refused, guard.ErrStale), errors.Is(refused, guard.ErrDuplicate):
		return "; the lock is lost: acquire it again, and start over"
	case errors.Is(refused, guard.ErrForeign):
		return fmt.Sprintf("; if the resource is to take its numbers from %s from now on: %s",
			cli.Shown(refused.Token.Issuer), b.Adoption(refused.Token.Resource, refused.Token.Issuer))
	case errors.Is(refused, guard.ErrNoToken):
		return "; use a token of that resource, or have the keys change hands: fenceproxy s3 rebind"
	case errors.Is(refused, guard.ErrReadOnly):
		return "; acquire the lock exclusively"
	case errors.Is(refused, layout.ErrBare):
		return "; 'fenceproxy s3 frame' frames what was there before, --legacy allows it as it is"
	}
	return ""
}

// Adoption is the command by which a resource adopts an issuer.
func (b *Bucket) Adoption(resource, issuer string) string {
	return fmt.Sprintf("fenceproxy s3 adopt '%s' --issuer %s --bucket %s", resource, cli.Shown(issuer), b.Name)
}

// Explain gives an error of the store an exit code, and words that say what to
// do.
func (b *Bucket) Explain(err error) error {
	var answer minio.ErrorResponse
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answer):
		return cli.Fail(cli.ExitUnreachable, "the store at %s: %w; check the endpoint, and that the store runs", b.Endpoint, cli.Innermost(err))
	case answer.Code == "NoSuchBucket":
		return cli.Fail(cli.ExitNotFound, "there is no bucket %q at %s", b.Name, b.Endpoint)
	case s3code.AboutKeys(answer.Code): // whatever the status, and whatever was being done
		return cli.Fail(cli.ExitDenied, "the store at %s: %s; check the keys, and what their user may do", b.Endpoint, strings.TrimSuffix(answer.Error(), "."))
	case answer.StatusCode == http.StatusForbidden, answer.StatusCode == http.StatusUnauthorized:
		return cli.Fail(cli.ExitDenied, "the store at %s: %w; check the keys, and what their user may do", b.Endpoint, err)
	case answer.StatusCode >= http.StatusInternalServerError:
		return cli.Fail(cli.ExitUnreachable, "the store at %s: %w", b.Endpoint, err)
	}
	return cli.Fail(cli.ExitFailure, "the store at %s: %w", b.Endpoint, err)
}

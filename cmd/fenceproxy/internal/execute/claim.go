package execute

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// claimTarget is where a token is claimed before the program starts.
type claimTarget interface {
	claim(ctx context.Context, e *errand, token guard.Token) error
	// adoption is the command by which a resource adopts an issuer there.
	adoption(resource, issuer string) string
}

// claimError is the error of a claim with the place where it was to be.
type claimError struct {
	at  claimTarget
	err error
}

func (e *claimError) Error() string { return e.err.Error() }
func (e *claimError) Unwrap() error { return e.err }

// claimTargets reads the URLs of --claim. It asks nobody.
func (p *program) claimTargets(cmd *cobra.Command, texts []string) ([]claimTarget, error) {
	var targets []claimTarget
	for _, text := range texts {
		scheme, _, _ := strings.Cut(text, "://")
		switch scheme {
		case "postgres", "postgresql":
			if _, err := pgx.ParseConfig(text); err != nil {
				return nil, cli.Usage(cmd, "--claim is not the URL of a Postgres database: it must read postgres://user:password@host:port/database, special characters percent-encoded")
			}
			targets = append(targets, databaseClaim(text))
		case "s3":
			name, settings, err := readBucketURL(text)
			if err != nil {
				return nil, cli.Usage(cmd, "--claim is not the URL of a bucket: %v", err)
			}
			target, err := p.bucketClaim(name, settings)
			if err != nil {
				return nil, cli.Usage(cmd, "--claim: %v", err)
			}
			targets = append(targets, target)
		default:
			return nil, cli.Usage(cmd, "--claim is not the URL of a Postgres database (postgres://…) or of a bucket (s3://…): other resources cannot be claimed")
		}
	}
	return targets, nil
}

// claimAll claims token everywhere, in the order of the command line.
func (e *errand) claimAll(ctx context.Context, token guard.Token) error {
	for _, target := range e.claims {
		if err := target.claim(ctx, e, token); err != nil {
			return &claimError{target, err}
		}
	}
	return nil
}

// waits reports whether a claim there waits for older holders.
func waits(target claimTarget) bool {
	_, ok := target.(databaseClaim)
	return ok
}

// databaseClaim is the URL of a database.
type databaseClaim string

var _ claimTarget = databaseClaim("")

func (databaseClaim) adoption(resource, issuer string) string {
	return fmt.Sprintf("fenceproxy marks adopt '%s' --issuer %s --postgres URL, as the owner of the schema fence", resource, cli.Shown(issuer))
}

func (url databaseClaim) claim(ctx context.Context, e *errand, token guard.Token) error {
	if err := e.claimDatabase(ctx, string(url), token); err != nil {
		return fmt.Errorf("claim %q: %w", e.resource, err)
	}
	return nil
}

func (e *errand) claimDatabase(ctx context.Context, url string, token guard.Token) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 1
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connect.DatabaseLimit
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return connect.Installed(ctx, c.Conn()) }); err != nil {
		return err
	}
	store, err := pgstore.New(pool, pgstore.Config{ClaimWait: e.claimWait, Evict: e.evict})
	if err != nil {
		return err
	}
	return store.Claim(ctx, token)
}

// bucketClaim is a bucket.
type bucketClaim struct{ *connect.Bucket }

var _ claimTarget = bucketClaim{}

// readBucketURL reads s3://BUCKET?endpoint=URL, whose parameters are named as the
// flags of connect.BucketFlags are. The error does not repeat the text.
func readBucketURL(text string) (bucket string, settings url.Values, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", nil, errors.New("it must read s3://bucket?endpoint=https://host:port, special characters percent-encoded")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return "", nil, errors.New("its query must have special characters percent-encoded")
	case u.User != nil:
		return "", nil, errors.New("it has a user: keys come from the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case strings.Trim(u.Path, "/") != "":
		return "", nil, errors.New("it has a path: a token is claimed for all of a bucket")
	case u.Fragment != "":
		return "", nil, errors.New("it has a fragment (#): percent-encode the character")
	}
	known := []string{"endpoint", "region", "cacert", "virtual-host"}
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return "", nil, fmt.Errorf("parameter %q is unknown; there are %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			return "", nil, fmt.Errorf("parameter %q is given twice", name)
		}
	}
	if v := query.Get("virtual-host"); v != "" && v != "true" && v != "false" {
		return "", nil, errors.New("virtual-host is true or false")
	}
	return u.Host, query, s3utils.CheckValidBucketName(u.Host)
}

// bucketClaim opens a bucket with these settings, and those of the environment.
func (p *program) bucketClaim(name string, settings url.Values) (bucketClaim, error) {
	bucket, err := connect.OpenBucket(name, p.Env, func(setting string) (value, source string) {
		return settings.Get(setting), "its " + setting
	})
	return bucketClaim{bucket}, err
}

func (b bucketClaim) adoption(resource, issuer string) string { return b.Adoption(resource, issuer) }

// claim takes no time of --claim-wait: in a bucket nobody is waited for.
func (b bucketClaim) claim(ctx context.Context, _ *errand, token guard.Token) error {
	defer b.Close()
	store, err := s3store.New(b.Client, s3store.Config{Bucket: b.Name})
	if err != nil {
		return err
	}
	err = store.Claim(ctx, token)
	if guard.OutcomeOf(err) == guard.Refused { // which may be healed
		return err
	}
	return b.ExplainStore(ctx, err)
}

// explainClaim says what to do about a claim that failed for good.
func (e *errand) explainClaim(err error) error {
	var blocked *pgstore.BlockedError
	var refused *guard.RefusedError
	var claim *claimError
	switch {
	case errors.As(err, &blocked):
		hint := "give a longer --claim-wait, or --evict to end them"
		if e.evict {
			hint = "those cannot be evicted"
		}
		return cli.Fail(cli.ExitHeld, "%w; %s", blocked, hint)
	case !errors.As(err, &refused), !errors.As(err, &claim):
		return err
	case errors.Is(err, guard.ErrForeign):
		return cli.Fail(cli.ExitDenied, "%w; if the resource is to take its numbers from %s from now on: %s",
			refused, e.target, claim.at.adoption(e.resource, refused.Token.Issuer))
	case errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrDuplicate):
		return cli.Fail(cli.ExitDenied, "%w, although the lock is held: the lock service hands out numbers that it has handed out before, as after a restored backup; give it a new issuer, and the resource to that (%s)", refused, claim.at.adoption(e.resource, "NEW"))
	}
	return cli.Fail(cli.ExitDenied, "%w", refused)
}

package ways

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Access is how to reach what the registers are in. Addresses are those of links.
type Access struct {
	// Postgres is the URL of the database itself.
	Postgres string `json:"postgres"`
	// Proxies are the URLs of the same database through a fenceproxy each.
	Proxies []string `json:"proxies"`
	// Pooled are the URLs of the same through a fenceproxy and a PgBouncer, one
	// before or behind the other.
	Pooled []string `json:"pooled"`
	// Psql is the path of the program.
	Psql string `json:"psql"`
	// S3 is the bucket itself.
	S3 Bucket `json:"s3"`
	// S3Proxies are the same bucket through a fenceproxy each.
	S3Proxies []Bucket `json:"s3_proxies"`
	// AWS is the path of the aws command line.
	AWS string `json:"aws"`
}

// Bucket is one bucket of an S3 server.
type Bucket struct {
	Endpoint string `json:"endpoint"`
	// CA is the file with the certificate of who has signed the server's; "" if the
	// server is without TLS.
	CA        string `json:"ca"`
	Region    string `json:"region"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Bucket    string `json:"bucket"`
}

// The names of the ways in.
const (
	PGStore     = "pgstore"
	PGStoreLean = "pgstore lean"
	ProxyPgx    = "pgproxy pgx"
	ProxyPsql   = "pgproxy psql"
	ProxyPooled = "pgproxy PgBouncer"
	Triggers    = "triggers"
	S3Store     = "s3store"
	S3ProxyGo   = "s3proxy minio-go"
	S3ProxyAWS  = "s3proxy aws"

	S3StoreParts = "s3store in parts" // only, which the others do at times
	S3ProxyParts = "s3proxy in parts"
)

// The names of those of the control group, which are no fences.
const (
	Unchecked      = "no check"
	LookFirst      = "check, then write"
	SnapshotCheck  = "check in a snapshot"
	S3Unchecked    = "S3, no check"
	S3ContentMatch = "S3, If-Match on content"
)

// table has every way in, and how it is opened.
var table = map[string]func(Access, *rand.Rand) (Way, error){
	PGStore:        openStore(false),
	PGStoreLean:    openStore(true),
	ProxyPgx:       always(openProxy),
	ProxyPsql:      always(openPsql),
	ProxyPooled:    always(openPooled),
	Triggers:       always(openTriggers),
	S3Store:        openS3Store(false),
	S3StoreParts:   openS3Store(true),
	S3ProxyGo:      always(openS3Proxy(dialMinio, false)),
	S3ProxyParts:   always(openS3Proxy(dialMinio, true)),
	S3ProxyAWS:     always(openS3Proxy(dialAWS, false)),
	Unchecked:      always(openUnchecked),
	LookFirst:      always(openLookFirst),
	SnapshotCheck:  always(openSnapshotCheck),
	S3Unchecked:    openS3Bare(false),
	S3ContentMatch: openS3Bare(true),
}

// always is an opening that cannot fail.
func always(open func(Access, *rand.Rand) Way) func(Access, *rand.Rand) (Way, error) {
	return func(a Access, dice *rand.Rand) (Way, error) { return open(a, dice), nil }
}

// Open opens the way in of that name. What a client may do in one way or another
// is decided by dice, which is not used after Close.
func Open(name string, a Access, dice *rand.Rand) (Way, error) {
	open, ok := table[name]
	if !ok {
		return nil, fmt.Errorf("no way in is called %q, but %q are", name, slices.Sorted(maps.Keys(table)))
	}
	return open(a, dice)
}

// Control reports whether the way is one of the control group.
func Control(name string) bool {
	return slices.Contains([]string{Unchecked, LookFirst, SnapshotCheck, S3Unchecked, S3ContentMatch}, name)
}

// InS3 reports whether the way leads to an object, and else to tables.
func InS3(name string) bool {
	return slices.Contains([]string{S3Store, S3StoreParts, S3ProxyGo, S3ProxyParts, S3ProxyAWS, S3Unchecked, S3ContentMatch}, name)
}

// Slow reports whether each act by the way is a process of its own.
func Slow(name string) bool { return name == ProxyPsql || name == S3ProxyAWS }

package serveconfig

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// leastSecret is how long a client's secret is at least: whoever sees a signed
// request can try secrets on it for as long as he likes.
const leastSecret = 16

var (
	accessKey = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,128}$`) // what needs no encoding, since / and = part the signature's fields
	bucket    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)
	domain    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

func (d *decoder) checkS3(path string, s *S3) {
	if host, port, err := net.SplitHostPort(s.Listen); err != nil || !isPort(port, 0) {
		d.wrong(path+".listen", "%q is not host:port", s.Listen)
	} else if host == "" {
		d.wrong(path+".listen", "%q has no host: 127.0.0.1:%s is for this machine only, 0.0.0.0:%s or [::]:%s for all", s.Listen, port, port, port)
	}
	d.checkS3Upstream(path+".upstream", &s.Upstream)
	d.checkS3Clients(path+".clients", s.Clients)
	d.checkS3Resources(path+".resources", s.Resources)
	if s.Untokened == "allow" && len(s.Resources) == 0 {
		d.wrong(path+".untokened", "allow needs resources: what none of them covers is not fenced, and nothing would be")
	}
	seen := map[string]bool{}
	for i, name := range s.Domains {
		at := index(path+".domains", i)
		switch {
		case !domain.MatchString(name):
			d.wrong(at, "%q is not the name of a domain in lower case, without a port", name)
		case net.ParseIP(name) != nil:
			d.wrong(at, "%q is an address: no bucket can stand in front of it", name)
		case seen[name]:
			d.wrong(at, "%q is there twice", name)
		}
		seen[name] = true
	}
}

func (d *decoder) checkS3Upstream(path string, u *S3Upstream) {
	at, err := url.Parse(u.Endpoint)
	switch {
	case err != nil, at.Scheme != "http" && at.Scheme != "https", at.Hostname() == "", at.User != nil, strings.Trim(at.Path, "/") != "", at.RawQuery != "", at.Fragment != "":
		// Not what stands there: a user's password may be in it.
		d.wrong(path+".endpoint", "is not the URL of a store: it must read https://host:port, or http:// without TLS")
		return
	case at.Port() != "" && !isPort(at.Port(), 1):
		d.wrong(path+".endpoint", "has no port %q", at.Port())
	case at.Scheme == "http" && u.CA != "":
		d.wrong(path+".ca", "is for TLS, and endpoint is http://")
	}
	u.Endpoint = at.Scheme + "://" + at.Host
}

func (d *decoder) checkS3Clients(path string, clients []S3Client) {
	if len(clients) == 0 {
		d.wrong(path, "is empty: nobody could come")
	}
	first := map[string]string{}
	for i, client := range clients {
		at := index(path, i)
		if !accessKey.MatchString(client.AccessKey) {
			d.wrong(at+".access_key", "has 1 to 128 letters, digits and . _ ~ - in it, and nothing else")
		} else if other, taken := first[client.AccessKey]; taken {
			d.wrong(at+".access_key", "is that of %s too", other)
		}
		first[client.AccessKey] = at
		if len(client.SecretKey) < leastSecret {
			d.wrong(at+".secret_key", "has less than %d bytes", leastSecret)
		}
		d.checkBuckets(at+".buckets", client.Buckets)
	}
}

func (d *decoder) checkBuckets(path string, buckets []string) {
	if len(buckets) == 0 {
		d.wrong(path, `is empty: name the buckets, or "*" for all`)
	}
	for i, name := range buckets {
		at := index(path, i)
		switch {
		case name == "*" && len(buckets) > 1:
			d.wrong(at, `"*" is all buckets, and stands alone`)
		case name != "*" && !bucket.MatchString(name):
			d.wrong(at, `%q is not the name of a bucket, and only "*" alone stands for all`, name)
		case slices.Index(buckets, name) < i:
			d.wrong(at, "%q is there twice", name)
		}
	}
}

func (d *decoder) checkS3Resources(path string, resources []S3Resource) {
	first := map[string]string{}
	for i, r := range resources {
		at := index(path, i)
		name, prefix, parted := strings.Cut(r.Prefix, "/")
		other, taken := first[r.Prefix]
		switch {
		case !parted, !bucket.MatchString(name):
			d.wrong(at+".prefix", "%q is not bucket/prefix, as in app/reports/; app/ is all of the bucket app", r.Prefix)
		case strings.HasPrefix(prefix, ".fence/"):
			d.wrong(at+".prefix", "%q is the fence's own", r.Prefix)
		case taken:
			d.wrong(at+".prefix", "%q is that of %s too", r.Prefix, other)
		}
		first[r.Prefix] = at
		if err := guard.ValidateResource(r.Resource); err != nil {
			d.wrong(at+".resource", "is not the name of a resource: %v", err)
		}
	}
}

// index is the path of element i of the list at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

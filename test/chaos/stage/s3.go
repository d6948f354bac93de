package stage

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// s3 starts the object store, with two proxies in front of it.
func (s *Stage) s3() {
	s.tb.Helper()
	server := s.objects()
	s.direct.S3 = ways.Bucket{
		Endpoint: server.Endpoint(), Region: server.Region, AccessKey: server.AccessKey, SecretKey: server.SecretKey, Bucket: server.Bucket(s.tb),
	}
	s.access.S3 = s.direct.S3
	inner := testenv.NewS3Link(s.tb, server.Endpoint())
	s.access.S3.Endpoint = s.link("worker–S3", inner.Endpoint(), 2, testenv.LinkConfig{}).Addr()
	s.catalog = append(s.catalog, nemesis.OfServer(store, server, 4, nemesis.Moment)...)
	s.catalog = append(s.catalog, nemesis.OfRequests(store, inner, 4)...)
	for i := range 2 {
		upstream := s.direct.S3
		upstream.Endpoint = s.link("s3proxy–S3", inner.Endpoint(), 1, testenv.LinkConfig{}).Addr()
		tls, ca := "", ""
		if i == 1 {
			tls, ca = strings.Replace(s.tls.config(), ", required: true", "", 1), s.tls.cert
		}
		p, bucket := s.s3Proxy(i+1, upstream, tls)
		bucket.CA = ca
		s.direct.S3Proxies = append(s.direct.S3Proxies, bucket)
		bucket.Endpoint = s.link("worker–s3proxy", p.addr, 1, testenv.LinkConfig{}).Addr()
		s.access.S3Proxies = append(s.access.S3Proxies, bucket)
		s.catalog = append(s.catalog, nemesis.OfServer("s3proxy", p, 3, nemesis.Moment)...)
	}
	s.access.AWS = s.config.AWS
	s.direct.AWS = s.config.AWS
}

// store is what faults call the object store.
const store = "S3"

// objects starts it, on a disk of its own if there can be one.
func (s *Stage) objects() *testenv.S3Server {
	s.tb.Helper()
	size := s.disks()
	if size == 0 {
		return testenv.StartS3(s.tb)
	}
	server := testenv.StartS3OnDisk(s.tb, size)
	s.catalog = append(s.catalog, nemesis.DiskFull(store, server, 4))
	return server.S3Server
}

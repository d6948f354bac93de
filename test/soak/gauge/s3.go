package gauge

import (
	"context"
	"fmt"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

// S3 is a bucket.
type S3 struct {
	Client *minio.Client
	Bucket string
}

// Metrics are what is in it.
func (S3) Metrics() []trend.Metric {
	return []trend.Metric{
		{Name: "objects", Noise: 1},
		{Name: "objects bytes", Noise: noiseSize},
		{Name: "objects below .fence/", Noise: 1},
		{Name: "unfinished uploads", Noise: 10},
	}
}

// Read reads them.
func (s S3) Read(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listings if one fails
	var objects, bytes, own, uploads float64
	for o := range s.Client.ListObjects(ctx, s.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			return nil, fmt.Errorf("list objects: %w", o.Err)
		}
		objects++
		bytes += float64(o.Size)
		if len(o.Key) > 7 && o.Key[:7] == ".fence/" {
			own++
		}
	}
	core := minio.Core{Client: s.Client}
	for key, id := "", ""; ; {
		page, err := core.ListMultipartUploads(ctx, s.Bucket, "", key, id, "", 1000)
		if err != nil {
			return nil, fmt.Errorf("list uploads: %w", err)
		}
		uploads += float64(len(page.Uploads))
		if !page.IsTruncated {
			break
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
	return map[string]float64{"objects": objects, "objects bytes": bytes, "objects below .fence/": own, "unfinished uploads": uploads}, nil
}

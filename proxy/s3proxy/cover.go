package s3proxy

import (
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
)

// Keys of log lines.
const (
	keyWrites = "writes"
	keyBucket = "bucket"
	keyKey    = "key"
)

const (
	// coverTime is how long a reload waits for what is written without a token where it
	// is to be fenced.
	coverTime = 30 * time.Second
	// cutTime is how long it waits for what it has cut. The store gets no more of it; only
	// a client that takes no answer may take longer.
	cutTime = 5 * time.Second
)

// cover returns when the writes are over: what comes to the store later than the first write of a
// holder would overwrite that (I1). Shutdown waits for no reload: it has them cut.
func (s *Server) cover(writes []*gateway.Write) {
	if len(writes) == 0 {
		return
	}
	s.log.Info("reload waits for writes without a token where keys are to be fenced", waitsFor(writes)...)
	if writes = s.await(writes, s.coverTime, s.drain.Done()); len(writes) == 0 {
		return
	}
	s.log.Warn("reload has waited for too long, cutting writes without a token", waitsFor(writes)...)
	for _, w := range writes {
		w.Cut()
	}
	if writes = s.await(writes, cutTime, nil); len(writes) > 0 {
		s.log.Warn("reload does not wait for clients that take no answer", waitsFor(writes)...)
	}
}

// await waits for so long, and returns those that are not over.
func (s *Server) await(writes []*gateway.Write, limit time.Duration, enough <-chan struct{}) []*gateway.Write {
	late := time.NewTimer(limit)
	defer late.Stop()
	progress := time.NewTicker(progressInterval)
	defer progress.Stop()
	for len(writes) > 0 {
		select {
		case <-writes[0].Done():
			writes = writes[1:]
		case <-progress.C:
			s.log.Info("reload waits for writes", waitsFor(writes)...)
		case <-late.C:
			return writes
		case <-enough:
			return writes
		}
	}
	return nil
}

// waitsFor is how many writes are waited for, at most, and where one of them is.
func waitsFor(writes []*gateway.Write) []any {
	return []any{keyWrites, len(writes), keyBucket, writes[0].Bucket, keyKey, writes[0].Key}
}

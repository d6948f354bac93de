package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// keys are the signing keys of one region that were derived already: each is good
// for a day. The zero value is ready for use, by many goroutines.
type keys struct {
	mu sync.RWMutex
	m  map[string]*derived // by access key: there are as many as have secrets
}

// derived is a signing key, and what it was made of.
type derived struct {
	secret, date string
	bytes        []byte // not to be changed
	macs         sync.Pool
}

// mac returns a MAC with the key, until it is done.
func (d *derived) mac() hash.Hash {
	if mac, ok := d.macs.Get().(hash.Hash); ok {
		return mac
	}
	return hmac.New(sha256.New, d.bytes)
}

func (d *derived) done(mac hash.Hash) { d.macs.Put(mac) }

// of returns the signing key of an access key on a date.
func (k *keys) of(accessKey, secret, date, region string) *derived {
	k.mu.RLock()
	d, ok := k.m[accessKey]
	k.mu.RUnlock()
	if ok && d.secret == secret && d.date == date {
		return d
	}
	d = &derived{secret: secret, date: date, bytes: signingKey(secret, date, region)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = make(map[string]*derived)
	}
	k.m[accessKey] = d
	return d
}

func signingKey(secret, date, region string) []byte {
	key := []byte("AWS4" + secret)
	for _, part := range []string{date, region, service, terminator} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return key
}

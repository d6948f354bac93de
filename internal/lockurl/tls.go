package lockurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsConfig is nil without TLS.
func (t *Target) tlsConfig() (*tls.Config, error) {
	if !t.query.Has("tls") {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := t.query.Get("cacert"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("read cacert: there is no certificate in " + path)
		}
	}
	if path := t.query.Get("cert"); path != "" {
		pair, err := tls.LoadX509KeyPair(path, t.query.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("read cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

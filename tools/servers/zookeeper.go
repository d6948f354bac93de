package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// zooKeeper is Debian's. Its package zookeeper, unlike zookeeperd, starts no
// service.
func zooKeeper() server {
	return server{
		name:  "ZooKeeper",
		doing: "installs the package zookeeper by apt, and a Java if there is none",
		have: func(context.Context) (string, error) {
			jars, err := filepath.Glob("/usr/share/java/zookeeper-[0-9]*.jar")
			if err != nil {
				return "", err
			}
			if len(jars) == 0 {
				return "", errNotThere
			}
			java, err := exec.LookPath("java")
			if err != nil {
				return "", fmt.Errorf("has no Java: %w", err)
			}
			version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "zookeeper-"), ".jar")
			return version + " with " + java, nil
		},
		install: func(ctx context.Context) error {
			if err := aptInstall(ctx, "zookeeper"); err != nil {
				return err
			}
			if _, err := exec.LookPath("java"); err == nil {
				return nil
			}
			return aptInstall(ctx, "default-jre-headless")
		},
	}
}

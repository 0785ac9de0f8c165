//go:build left_out

package engines

import (
	"errors"
	"strings"
	"testing"

	"leasehold/engine"
)

func TestLeftOut(t *testing.T) {
	for url, tag := range map[string]string{
		"redis://h": "no_redis", "redlock://a,b,c": "no_redis", "zookeeper://h": "no_zookeeper", "etcd://h": "no_etcd",
		"mariadb://h/d": "no_mysql", "postgres://h/d": "no_postgres",
	} {
		_, err := Open(t.Context(), url)
		examined := Examine(t.Context(), url, engine.ExamineOptions{}, func(engine.Finding) {})
		for _, err := range []error{err, examined} {
			if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), tag) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
	if _, err := Open(t.Context(), "mem:"); err != nil {
		t.Error(err)
	}
}
